// The API, rendered from the node's own OpenAPI document; requests that only ask can be sent from here.

import { ask } from "./ask.js";
import { $, h } from "./write.js";

const SHOWN = 20_000; // characters of an answer

export const page = { name: "api", title: "API", build };

async function build(box) {
  box.append(h("p", { class: "beside" }, "Programs use the same requests as this page. The document itself: ",
    h("a", { href: "/api/v1/openapi.json" }, "openapi.json"), "; metrics for Prometheus: ", h("a", { href: "/metrics" }, "/metrics"), "."),
  h("div", { id: "api-list" }, h("p", { class: "empty" }, "Reading the document …")));
  const document_ = await (await ask("/openapi.json")).json();
  const groups = new Map();
  for (const [path, operations] of Object.entries(document_.paths)) {
    const group = path.startsWith("/api/v1/") ? path.split("/")[3].replace("policies", "policy") : "node";
    for (const [method, operation] of Object.entries(operations)) {
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push({ path, method: method.toUpperCase(), operation });
    }
  }
  const schemas = document_.components.schemas;
  $("api-list").replaceChildren(...[...groups].map(([group, found]) => h("section", { class: "card" },
    h("div", { class: "head" }, h("h2", {}, group)), ...found.map((one) => request(one, schemas)))));
}

function request({ path, method, operation }, schemas) {
  const { parameters = [], requestBody, responses } = operation;
  const [kind, { schema }] = Object.entries(responses["200"].content)[0];
  const body = requestBody?.content["application/json"].schema;
  const details = h("details", { class: "request" },
    h("summary", {}, h("b", { class: "method", "data-method": method }, method), " ", h("code", {}, path), h("span", {}, operation.summary)));
  details.addEventListener("toggle", () => {
    if (!details.open || details.dataset.built) return;
    details.dataset.built = "yes";
    details.append(
      ...(parameters.length ? [h("h3", {}, "Parameters"), fields(parameters.map(({ name, schema: type, required, description }) => (
        { name, type: typeOf(type), required, about: description })))] : []),
      ...(body ? [h("h3", {}, "Body"), described(body, schemas)] : []),
      h("h3", {}, `Answer: ${kind}`), described(schema.contentSchema ?? schema, schemas),
      ...(method === "GET" && kind === "application/json" ? [trial(path, parameters)] : []));
  });
  return details;
}

const resolve = (schema, schemas) => (schema?.$ref ? schemas[schema.$ref.split("/").pop()] : schema);

/** The fields of a schema; of several possible ones, each. */
function described(schema, schemas) {
  const found = resolve(schema, schemas);
  if (found.anyOf) return h("div", {}, ...found.anyOf.map((one) => described(one, schemas)));
  if (!found.properties) return h("p", { class: "beside" }, found.description ?? typeOf(found));
  const required = new Set(found.required);
  return h("div", {}, ...(found.description ? [h("p", { class: "beside" }, found.description)] : []),
    fields(Object.entries(found.properties).map(([name, one]) => (
      { name, type: typeOf(one), required: required.has(name), about: one.description ?? inner(one, schemas) }))));
}

/** What a field that is an object or a list of them consists of, by name. */
function inner(schema, schemas) {
  const found = resolve(schema.items ?? schema.anyOf?.find((one) => one.$ref) ?? schema, schemas);
  return found?.properties ? Object.keys(found.properties).join(", ") : "";
}

function typeOf(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.type === "array") return `list of ${schema.items ? typeOf(schema.items) : "anything"}`;
  const bound = schema.maximum !== undefined ? ` ≤ ${schema.maximum}` : "";
  return `${schema.type ?? "anything"}${bound}`;
}

function fields(rows) {
  return h("table", { class: "clients fields-of" }, h("thead", {}, h("tr", {}, ...["Field", "Type", ""].map((head) =>
    h("th", { scope: "col" }, head || h("span", { class: "unseen" }, "Meaning"))))), h("tbody", {}, ...rows.map(({ name, type, required, about }) =>
    h("tr", {}, h("td", {}, h("code", {}, name), required ? " *" : ""), h("td", { "data-label": "Type" }, type), h("td", {}, about ?? "")))));
}

/** A form that sends the request and shows the answer. */
function trial(path, parameters) {
  const inputs = parameters.map(({ name, in: place, required }) => ({ name, place, input: h("input", { maxlength: "2000", autocomplete: "off",
    spellcheck: "false", ...(required ? { required: "" } : {}) }) }));
  const answer = h("pre", { class: "answer", hidden: "", tabindex: "0", "aria-label": "Answer" });
  const form = h("form", { class: "actions" }, ...inputs.map(({ name, input }) => h("label", {}, `${name} `, input)),
    h("button", { type: "submit" }, "Send"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    let address = path;
    const query = new URLSearchParams();
    for (const { name, place, input } of inputs) {
      if (place === "path") address = address.replace(`{${name}}`, encodeURIComponent(input.value));
      else if (input.value) query.set(name, input.value);
    }
    const text = await ask(`${address.replace("/api/v1", "")}${query.size ? `?${query}` : ""}`)
      .then(async (response) => JSON.stringify(await response.json(), null, 2)).catch((error) => error.message);
    answer.textContent = text.length > SHOWN ? `${text.slice(0, SHOWN)}\n…` : text;
    answer.hidden = false;
  });
  return h("div", {}, h("h3", {}, "Try it"), form, answer);
}
