/** Limits and escapes finished log lines. Pure. */
import { stripVTControlCharacters } from "node:util";

// kluctl's client aborts the whole stream at a line of 64 KiB.
const mostBytes = 60 * 1024;
const mostTextLength = 2_000;

/** JSON escapes line feeds, but neither C1 control characters nor Unicode's own line separators. */
export function escapeControls(line: string): string {
  return line.replace(
    /[\u007f-\u009f\u2028\u2029]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Cuts the texts of a line that is too long; if that is not enough, keeps only its short fields. */
export function shorten(line: string): string {
  if (line.length * 3 < mostBytes || Buffer.byteLength(line) < mostBytes) return line;
  const entry = JSON.parse(line) as Record<string, unknown>;
  const cut = JSON.stringify({ ...(mapTexts(entry, cutText) as object), cut: true });
  if (Buffer.byteLength(cut) < mostBytes) return `${cut}\n`;
  const short = Object.entries(entry)
    .filter(([, value]) => typeof value !== "object")
    .slice(0, 20)
    .map(([key, value]) => [key.slice(0, 100), typeof value === "string" ? value.slice(0, 500) : value]);
  return `${JSON.stringify({ ...Object.fromEntries(short), cut: true })}\n`;
}

/** For a terminal: no text can start a new line or move the cursor. Stack traces keep their lines, indented. */
export function tame(line: string): string {
  return `${JSON.stringify(mapTexts(JSON.parse(line), tameText))}\n`;
}

function cutText(text: string): string {
  return text.length > mostTextLength
    ? `${text.slice(0, mostTextLength)}… (${text.length - mostTextLength} more)`
    : text;
}

function tameText(text: string, key: string): string {
  const plain = stripVTControlCharacters(text);
  const lines = key === "stack" ? plain.replaceAll("\r", "") : plain.replaceAll(/\r?\n|\r/g, " ⏎ ");
  return lines.replaceAll(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029]/g, "�");
}

function mapTexts(value: unknown, change: (text: string, key: string) => string, key = ""): unknown {
  if (typeof value === "string") return change(value, key);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, change, key));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, child]) => [name, mapTexts(child, change, name)]));
}
