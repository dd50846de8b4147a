/**
 * Finds the texts for users in the sources: help, errors, log lines, statuses, the page. Pure except for reading files.
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAst } from "vite";

export interface Message {
  /** Relative to the root. */
  readonly file: string;
  readonly line: number;
  readonly kind: "error" | "log" | "text";
  /** Computed parts are replaced by `…`. */
  readonly text: string;
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly [name: string]: unknown;
}

const sources = ["src/**/*.ts", "routes/**/*.ts", "jobs/**/*.ts", "ui/**/*.{ts,tsx}"];
const logLevels = new Set(["trace", "debug", "info", "warn", "error", "fatal"]);

export function findMessages(root: string): Message[] {
  return sources
    .flatMap((pattern) => globSync(pattern, { cwd: root }))
    .toSorted()
    .flatMap((file) => messagesIn(file, readFileSync(join(root, file), "utf8")));
}

/** Returns texts of at least two words; shorter ones are names. Programs in other languages are skipped. */
export function messagesIn(file: string, source: string): Message[] {
  const found: Message[] = [];
  const visit = (node: Node, kind: Message["kind"]): void => {
    if (node.type === "ImportDeclaration" || node.type === "TaggedTemplateExpression") return;
    const text = textOf(node);
    if (text !== undefined && isProse(text)) {
      found.push({ file, line: source.slice(0, node.start).split("\n").length, kind, text });
    }
    for (const child of childrenOf(node)) visit(child, kindOf(node) ?? kind);
  };
  visit(parseAst(source, { lang: file.endsWith("x") ? "tsx" : "ts" }) as unknown as Node, "text");
  return found;
}

function childrenOf(node: Node): Node[] {
  return Object.values(node)
    .flat()
    .filter((value): value is Node => typeof value === "object" && value !== null && "type" in value);
}

function textOf(node: Node): string | undefined {
  if (node.type === "Literal") return typeof node["value"] === "string" ? tidy(node["value"]) : undefined;
  if (node.type === "JSXText") return tidy(String(node["value"]));
  if (node.type !== "TemplateLiteral") return undefined;
  const parts = node["quasis"] as { value: { cooked: string | null; raw: string } }[];
  return tidy(parts.map(({ value }) => value.cooked ?? value.raw).join("…"));
}

function tidy(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}

/** Two words separated by a space, in a text that is not a program, a pattern or a path. */
function isProse(text: string): boolean {
  return (
    /\p{L}{2,}[,.:;)"'`]* [("'`]*\p{L}{2,}/u.test(text) &&
    !/=>|\$\{|\bredis\.call\b|^--?\w|[{};]\s*\w+\s*[=(]/.test(text)
  );
}

/** The kind of the messages below this node. */
function kindOf(node: Node): Message["kind"] | undefined {
  if (node.type === "NewExpression") {
    const { name = "" } = node["callee"] as { name?: string };
    return /Error$|^Refusal$/.test(name) ? "error" : undefined;
  }
  if (node.type !== "CallExpression") return undefined;
  const callee = node["callee"] as {
    property?: { name?: string };
    object?: { name?: string; property?: { name?: string } };
  };
  const object = callee.object?.name ?? callee.object?.property?.name ?? "";
  return /^log(ger)?$/.test(object) && logLevels.has(callee.property?.name ?? "") ? "log" : undefined;
}
