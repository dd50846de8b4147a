/**
 * Splits a secret value into the parts that are secret by themselves: its lines, the values of JSON, YAML or settings
 * in it, the password of a login. Pure.
 */
import { isUtf8 } from "node:buffer";
import { parse } from "yaml";
import { minLength } from "./matcher.ts";

export interface Piece {
  readonly value: Buffer;
  /**
   * Whether it is masked wherever it appears, even within longer text. Otherwise it is masked only where it is the
   * whole value of a field: masking every `1`, `true` or `production` would make half of every text unreadable and
   * protect nothing.
   */
  readonly everywhere: boolean;
}

/** Parsing longer values as YAML would cost more than everything else together; their lines are masked anyway. */
const maxParsedLength = 100_000;
const maxDepth = 5;

/** Generates the pieces lazily, and some more than once: the caller stops when it has enough. */
export function* piecesOf(value: Buffer): Generator<Piece> {
  if (value.length === 0) return;
  yield { value, everywhere: value.length >= minLength };
  for (const { text, everywhere } of isUtf8(value) ? innerPieces(value.toString("utf8"), 0) : []) {
    if (text !== "") yield { value: Buffer.from(text, "utf8"), everywhere: everywhere && text.length >= minLength };
  }
}

/** A few short words of letters only: typical for names and settings, and for few passwords. */
export function isOrdinary(text: string): boolean {
  return text.length < 12 && /^[A-Za-z]+(?:[-._ /:][A-Za-z]+)*$/.test(text);
}

interface InnerPiece {
  readonly text: string;
  readonly everywhere: boolean;
}

function* innerPieces(text: string, depth: number): Generator<InnerPiece> {
  if (depth > maxDepth) return;
  const trimmed = text.trim();
  if (trimmed !== text && trimmed !== "") yield { text: trimmed, everywhere: true };
  yield* loginPieces(trimmed);
  const structure = parseStructure(trimmed);
  if (structure !== undefined) {
    yield* leavesOf(structure, "", depth + 1);
    return;
  }
  const decoded = decodeBase64(trimmed);
  if (decoded !== undefined) {
    yield { text: decoded, everywhere: true };
    yield* innerPieces(decoded, depth + 1);
  }
  if (!trimmed.includes("\n")) {
    yield* settingPieces(trimmed, depth);
    return;
  }
  for (const line of trimmed.split("\n").map((each) => each.trim())) {
    if (line === "" || isMarker(line)) continue;
    yield { text: line, everywhere: true };
    yield* loginPieces(line);
    yield* settingPieces(line, depth);
  }
}

/** The first and last line of a PEM block, which are not secret. */
function isMarker(line: string): boolean {
  return /^-----(?:BEGIN|END) [A-Z0-9 ]+-----$/.test(line);
}

/** Values in `KEY=value` and `key: value`. */
function* settingPieces(line: string, depth: number): Generator<InnerPiece> {
  const [, key = "", quoted = ""] = /^(?:export\s+)?["']?([\w.-]{1,80})["']?\s*[=:]\s*(\S.*)$/.exec(line) ?? [];
  const value = quoted.replace(/^(["'])(.*)\1[;,]?$/, "$2");
  if (value !== "") yield* leafPieces(value, key, depth + 1);
}

/**
 * Looks behind only at the last character of the scheme: searching for its start takes time that grows with the square
 * of a long word's length.
 */
const loginInUrl = /(?<=[\w+.-]):\/\/[^\s/:@]*:([^\s/"']+)@/g;

/** Yields the password in `scheme://user:password@host`. */
function* loginPieces(text: string): Generator<InnerPiece> {
  for (const [, password = ""] of text.matchAll(loginInUrl)) {
    yield { text: password, everywhere: true };
    const plain = decodePercent(password);
    if (plain !== password) yield { text: plain, everywhere: true };
  }
}

function* leavesOf(value: unknown, key: string, depth: number): Generator<InnerPiece> {
  if (depth > maxDepth * 3) return;
  if (Array.isArray(value)) for (const item of value) yield* leavesOf(item, key, depth + 1);
  else if (typeof value === "object" && value !== null) {
    for (const [name, item] of Object.entries(value)) yield* leavesOf(item, name, depth + 1);
  } else if (typeof value === "string") yield* leafPieces(value, key, depth);
  else if (typeof value === "number" || typeof value === "bigint") yield* leafPieces(String(value), key, depth);
}

function* leafPieces(text: string, key: string, depth: number): Generator<InnerPiece> {
  yield { text, everywhere: !isOrdinary(text) || soundsSecret(key) };
  yield* innerPieces(text, depth);
  if (key !== "auth") return;
  const login = decodeBase64(text) ?? "";
  const password = login.slice(login.indexOf(":") + 1);
  if (password !== "") yield { text: password, everywhere: true };
}

function soundsSecret(key: string): boolean {
  return /pass|pwd|secret|token|key|auth|cred|phrase|private/i.test(key);
}

/** Parses JSON or YAML with fields or items; returns `undefined` for plain text. */
function parseStructure(text: string): object | undefined {
  if (text.length > maxParsedLength) return undefined;
  if (!/^[[{]/.test(text) && !/^[^\n]*:(?:\s|$)/m.test(text) && !/^[^\S\n]*-\s/m.test(text)) return undefined;
  try {
    const value: unknown = /^[[{]/.test(text) ? parseJson(text) : parse(text, { logLevel: "silent" });
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return parse(text, { logLevel: "silent" });
  }
}

/** Decodes base64 if the result is text; binary values are found by their encoded form. */
function decodeBase64(text: string): string | undefined {
  const compact = text.replace(/\s+/g, "");
  if (compact.length < 8 || !/^[\w+/-]+={0,2}$/.test(compact)) return undefined;
  const bytes = Buffer.from(compact, "base64");
  const decoded = bytes.toString("utf8");
  // eslint-disable-next-line no-control-regex -- control characters are what tells bytes from text
  if (/[\u0000-\u0008\u000e-\u001f\ufffd]/.test(decoded)) return undefined;
  return Buffer.from(decoded, "utf8").equals(bytes) ? decoded : undefined;
}

function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
