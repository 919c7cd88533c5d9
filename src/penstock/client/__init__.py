"""What a program outside the node uses."""
