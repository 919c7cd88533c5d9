"""Telling people and programs outside MQTT: chat, webhooks, feeds, each with its own queue."""
