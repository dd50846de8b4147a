/**
 * Replaces the values that SOPS encrypted by placeholders and removes SOPS's own fields, so that kluctl treats the file
 * as one that was never encrypted. The text is not parsed, so nothing in it can be expanded or nested. Pure.
 */
import { createHash } from "node:crypto";

export type FileFormat = "yaml" | "json" | "dotenv" | "ini";

export interface StubbedText {
  readonly text: string;
  /** Everything encrypted in the text, verbatim. */
  readonly ciphertexts: readonly string[];
}

/** Determines the format by extension, as kluctl does; kluctl does not decrypt files with other extensions. */
export function formatOf(name: string): FileFormat | undefined {
  if (/\.ya?ml$/.test(name)) return "yaml";
  if (name.endsWith(".json")) return "json";
  if (name.endsWith(".env")) return "dotenv";
  return name.endsWith(".ini") ? "ini" : undefined;
}

/** Returns `undefined` for a text that SOPS did not write. One character is one byte: only ASCII matters here. */
export function stubText(text: string, format: FileFormat): StubbedText | undefined {
  const isJson = format === "json" || (format === "yaml" && /^\s*\{(?![{%#])/.test(text));
  const rest = isJson ? withoutMember(text) : withoutLines(text, format);
  if (rest === undefined) return undefined;
  const ciphertexts: string[] = [];
  const stubbed = rest.replaceAll(encrypted, (whole: string, quote: string, type: Type) => {
    ciphertexts.push(whole);
    return placeholder(whole.slice(quote.length, whole.length - quote.length), type, isJson ? '"' : "");
  });
  return { text: stubbed, ciphertexts };
}

type Type = "str" | "bytes" | "int" | "float" | "bool" | "comment";

const encrypted =
  /(["']?)ENC\[AES256_GCM,data:[^,\]\s]*,iv:[^,\]\s]*,tag:[^,\]\s]*,type:(str|bytes|int|float|bool|comment)\]\1/g;

/**
 * Equal ciphertexts get equal placeholders, which are valid in most places: the text can also be the name of an object,
 * the value of a label and, with its 20 characters, base64. A number is 1, because 0 is neither a port nor a useful
 * count.
 */
function placeholder(ciphertext: string, type: Type, quote: string): string {
  if (type === "int") return "1";
  if (type === "float") return "1.0";
  if (type === "bool") return "false";
  if (type === "comment") return "";
  const digest = createHash("sha256").update(ciphertext).digest("hex");
  return `${quote}encrypted${digest.slice(0, 11)}${quote}`;
}

function withoutLines(text: string, format: Exclude<FileFormat, "json">): string | undefined {
  const kept: string[] = [];
  let isOwn = false;
  let hasMac = false;
  for (const line of text.split("\n")) {
    if (format === "dotenv") isOwn = line.startsWith("sops_");
    else if (format === "ini") isOwn = /^\s*\[/.test(line) ? /^\s*\[sops\]/.test(line) : isOwn;
    else isOwn = /^(["']?)sops\1\s*:/.test(line) || (isOwn && /^(?:[ \t\r]|$)/.test(line));
    if (!isOwn) kept.push(line);
    else hasMac ||= /^\s*(["']?)(?:sops_)?mac\1\s*[:=]/.test(line);
  }
  const rest = kept.join("\n");
  return hasMac ? (rest === "" || rest.endsWith("\n") ? rest : `${rest}\n`) : undefined;
}

/** Removes the member `sops` of the outermost object. */
function withoutMember(text: string): string | undefined {
  let depth = 0;
  let [from, comma] = [-1, -1];
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '"') {
      const end = endOfString(text, at);
      const isMember = from === -1 && depth === 1 && text.slice(at, end) === '"sops"';
      if (isMember && /^\s*:\s*\{/.test(text.slice(end, end + 100))) from = at;
      at = end - 1;
    } else if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") {
      depth--;
      if (depth === 0) return from === -1 ? undefined : ofSops(text, from, comma === -1 ? from : comma, at);
    } else if (char === "," && depth === 1) {
      if (from !== -1) return ofSops(text, from, from, at + 1);
      comma = at;
    }
  }
  return undefined;
}

/** Returns the position after the closing quote. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

/** Returns the text without `from` … `to` if the member that begins at `member` is SOPS's. */
function ofSops(text: string, member: number, from: number, to: number): string | undefined {
  return /"mac"\s*:/.test(text.slice(member, to)) ? text.slice(0, from) + text.slice(to) : undefined;
}
