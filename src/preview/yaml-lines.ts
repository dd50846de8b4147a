/** Formats a value of an object as lines that resemble YAML; for users, not for parsers. Pure. */

/** How the text of scalars and of field names is shown. */
export interface Wording {
  leaf(text: string): string;
  key(text: string): string;
  /** For values nested too deeply to be readable: the whole value as JSON. */
  deep(json: string): string;
}

/** A plain text is shown as its own lines. */
export function toYamlLines(value: unknown, wording: Wording): string[] {
  if (typeof value === "string") return textLines(wording.leaf(value));
  return nested(value, wording, 0);
}

/** Each level indents all lines below it, and an author may try to make that slow. */
const deepest = 64;

function nested(value: unknown, wording: Wording, depth: number): string[] {
  if (depth > deepest) return [wording.deep(JSON.stringify(value))];
  if (Array.isArray(value)) {
    if (value.length === 0) return ["[]"];
    return value.flatMap((item) => hang("- ", toItemLines(item, wording, depth + 1)));
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value);
    if (entries.length === 0) return ["{}"];
    return entries.flatMap(([key, item]) => field(toKey(wording.key(key)), item, wording, depth + 1));
  }
  return textLines(wording.leaf(String(value)));
}

function field(key: string, value: unknown, wording: Wording, depth: number): string[] {
  const lines = toItemLines(value, wording, depth);
  if (typeof value === "string") {
    return lines.length === 1 ? [`${key}: ${lines[0]}`] : [`${key}: |`, ...lines.map((line) => `  ${line}`)];
  }
  if (lines.length === 1 && (!isFilled(value) || lines[0] === "[]" || lines[0] === "{}"))
    return [`${key}: ${lines[0]}`];
  // The dashes of a list already stand out.
  return [`${key}:`, ...(Array.isArray(value) ? lines : lines.map((line) => `  ${line}`))];
}

function toItemLines(value: unknown, wording: Wording, depth: number): string[] {
  if (typeof value !== "string") return nested(value, wording, depth);
  const lines = textLines(wording.leaf(value));
  return lines.length === 1 ? [quoteIfOdd(lines[0]!)] : lines;
}

/** The lines of a text, without an empty last line. */
function textLines(text: string): string[] {
  const lines = text.split("\n");
  return lines.length > 1 && lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}

function hang(mark: string, lines: readonly string[]): string[] {
  return lines.map((line, i) => (i === 0 ? `${mark}${line}` : `${" ".repeat(mark.length)}${line}`));
}

function isFilled(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

function toKey(key: string): string {
  return /^[\w.$/-]+$/.test(key) ? key : JSON.stringify(key);
}

/** Quotes texts that YAML would take for something else, so that `"3"` and `3` are distinguishable. */
function quoteIfOdd(text: string): string {
  const odd =
    text === "" || /^(?:true|false|null|yes|no|on|off|~|[-+.\d][\d.eExX_:+-]*)$/i.test(text) || text !== text.trim();
  return odd || /^[[{>|&!%@`"'#]|^[-?:] |: |:$| #/.test(text) ? JSON.stringify(text) : text;
}
