// Sends requests to the node, with the token if there is one; asks the operator; shows errors.

import { $, write } from "./write.js";

const API = "/api/v1";

export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail ?? `the node answered ${status}`);
    this.status = status;
    this.body = body;
  }
}

export async function ask(path, { body, signal } = {}) {
  for (;;) {
    const headers = {};
    const token = sessionStorage.getItem("token");
    if (token) headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const response = await fetch(API + path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
    });
    if (response.ok) return response;
    if (response.status !== 401) throw new Problem(response.status, await response.json().catch(() => null));
    await askToken(token);
  }
}

/** Hand each server-sent event of a response on; EventSource cannot send a token. Only the newest of several. */
export async function events(response, handle, { all = false } = {}) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const found = rest.split("\n\n");
    rest = found.pop();
    const data = found.filter((event) => event.startsWith("data: "));
    for (const event of all ? data : data.slice(-1)) await handle(JSON.parse(event.slice(6)));
  }
}

export const get = async (path, options) => (await ask(path, options)).json();
export const post = async (path, body) => (await ask(path, { body })).json();

let asking = null;

/** Ask for the token once, however many requests were refused for the lack of it. */
async function askToken(refused) {
  if (sessionStorage.getItem("token") !== refused) return;
  asking ??= new Promise((done) => {
    const dialog = $("ask-token");
    $("token-wrong").hidden = !refused;
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("token", $("token").value);
      $("token").value = "";
      asking = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  await asking;
}
$("ask-token").addEventListener("cancel", (event) => event.preventDefault());

export function confirmed(title, text, yes) {
  return new Promise((done) => {
    const dialog = $("confirm");
    write($("confirm-title"), title);
    write($("confirm-text"), text);
    write($("confirm-yes"), yes);
    dialog.returnValue = "no";
    dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
  });
}

export function notice(text) {
  $("notice").hidden = !text;
  write($("notice"), text);
}
