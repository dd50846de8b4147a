/** A value of an object as lines that read like YAML; for people, not for parsers. Pure. */

/** How the text of a scalar and of a field's name is shown. */
export interface Wording {
  leaf(text: string): string;
  key(text: string): string;
  /** Of what is nested too deeply to be read: all of it, as JSON. */
  deep(json: string): string;
}

/** A text by itself is its lines as they are. */
export function toYamlLines(value: unknown, wording: Wording): string[] {
  if (typeof value === "string") return textLines(wording.leaf(value));
  return nested(value, wording, 0);
}

/** Each level indents all lines below it, and whoever wrote them may want that to take long. */
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
  // A list's dashes already stand out.
  return [`${key}:`, ...(Array.isArray(value) ? lines : lines.map((line) => `  ${line}`))];
}

function toItemLines(value: unknown, wording: Wording, depth: number): string[] {
  if (typeof value !== "string") return nested(value, wording, depth);
  const lines = textLines(wording.leaf(value));
  return lines.length === 1 ? [quoteIfOdd(lines[0]!)] : lines;
}

/** The lines of a text; the line end at its end is no line. */
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

/** Quoted where YAML would take a text for something else, so that `"3"` and `3` can be told apart. */
function quoteIfOdd(text: string): string {
  const odd =
    text === "" || /^(?:true|false|null|yes|no|on|off|~|[-+.\d][\d.eExX_:+-]*)$/i.test(text) || text !== text.trim();
  return odd || /^[[{>|&!%@`"'#]|^[-?:] |: |:$| #/.test(text) ? JSON.stringify(text) : text;
}
