/**
 * Texts that users write: with names such as `{{title}}`, and without any logic. A body for a receiver of theirs is a JSON
 * value with such texts: as it is built as a value, no text of a notification can change its structure. Pure.
 */
import { quote } from "../kit/quote.ts";
import type { NoticeLine, Notification } from "../model.ts";

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

type ToText = (message: Notification) => string;

const names: ReadonlyMap<string, ToText> = new Map<string, ToText>([
  ["title", ({ title }) => title],
  ["state", ({ state }) => state],
  ["severity", ({ severity }) => severity],
  ["kind", ({ kind }) => kind],
  ["text", renderText],
  ["cluster", ({ cluster }) => cluster],
  ["at", ({ at }) => new Date(at).toISOString()],
  ["thread", ({ thread }) => thread],
  ["id", ({ id }) => id],
]);
const known = [...names.keys(), "facts.<label>", "links.<label>"].map((name) => `{{${name}}}`).join(", ");

const braces = /\{\{([^{}]*)\}\}/;

/**
 * Throws an Error that names the first unknown name, and `key`. A fact or link that a notification does not have is
 * empty.
 */
export function compileTemplate(template: unknown, key: string): (message: Notification) => JsonValue {
  if (typeof template === "string") return compileText(template, key);
  if (Array.isArray(template)) {
    const items = template.map((item: unknown) => compileTemplate(item, key));
    return (message) => items.map((item) => item(message));
  }
  if (typeof template === "object" && template !== null) {
    const entries = Object.entries(template).map(([name, value]) => [name, compileTemplate(value, key)] as const);
    return (message) => Object.fromEntries(entries.map(([name, value]) => [name, value(message)]));
  }
  if (template === null || typeof template === "boolean" || Number.isFinite(template))
    return () => template as JsonValue;
  throw new Error(`${key}: contains a value that JSON does not have`);
}

/** Like `compileTemplate`, for one text. */
export function compileText(text: string, key: string): ToText {
  // Split by a pattern with one group, every second part is what the group matched.
  const parts = text
    .split(braces)
    .map((part, index): ToText => (index % 2 === 1 ? findText(part.trim(), key) : () => part));
  return (message) => parts.map((part) => part(message)).join("");
}

function findText(name: string, key: string): ToText {
  const toText = names.get(name);
  if (toText !== undefined) return toText;
  const [, list, label = ""] = /^(facts|links)\.(.+)$/.exec(name) ?? [];
  if (list === "facts") return ({ facts }) => facts.find((fact) => fact.label === label)?.value ?? "";
  if (list === "links") return ({ links }) => links.find((link) => link.label === label)?.url ?? "";
  throw new Error(`${key}: ${quote(`{{${name}}}`)} is unknown; use ${known}`);
}

export const lineStates: Readonly<Record<NoticeLine["state"], string>> = {
  succeeded: "succeeded",
  failed: "failed",
  warning: "needs attention",
  progress: "in progress",
  waiting: "waiting",
};

/** All lines as plain text. */
function renderText({ lines, linesLeftOut }: Notification): string {
  const shown = lines.map(({ name, state, text }) => `${name} ${lineStates[state]}${text === "" ? "" : `: ${text}`}`);
  return [...shown, ...(linesLeftOut > 0 ? [`and ${linesLeftOut} more`] : [])].join("\n");
}
