/**
 * Detects code in Jinja2 templates that may give another result the next time, or that reads files outside the project.
 * Errs on the safe side: a name in a text counts too, because it may become the name of a filter. Pure.
 */

/**
 * `map` and `attr` with anything but a plain name: which filter or attribute they use is only known during rendering.
 * The same is true of the argument of `render`.
 */
const hidesNames = String.raw`\b(?:map|attr)\s*\(\s*(?!attribute\s*=|(?:"\w+"|'\w+')\s*[,)])|\bmap\s*\(\s*["']map["']`;
/** kluctl's clock in a JSON path of `get_var`, and access to Python internals (`__`). */
const hidden = String.raw`\$\.+time\b|__`;

/** For code in braces: kluctl's clock, Jinja2's random functions, and what can reach either of them. */
const unsteadyCode = new RegExp(String.raw`(?<![.\w])(?:time|lipsum|random|render)\b|${hidden}|${hidesNames}`);
/** For code without braces, surrounded by other text. */
const unsteadyWords = new RegExp(
  String.raw`(?<![.\w])time\s*[.[|]|["']time["']|(?:\||["'])\s*random\b|(?<![.\w])(?:lipsum|render)\s*\(|${hidden}|${hidesNames}`,
);

/** A parent directory: literal or escaped dots, or an encrypted text, which may contain anything. */
const parentDirectory = /(?<!\.)\.\.(?!\.)|\\(?:x2e|u002e)|\bENC\[/i;
/** The commit that last changed a file, by kluctl's function or from git's own files. */
const history = /\bload_\w*git\w*|(?<![\w-])\.git(?![\w.-])/;

/** `code`: the text within braces. */
export function isUnsteadyCode(code: string): boolean {
  return unsteadyCode.test(code);
}

/** `text`: a text that may contain code without braces, such as a condition. */
export function hasUnsteadyWords(text: string): boolean {
  return unsteadyWords.test(text);
}

/** Whether a text may refer to something outside the project's directory: a parent directory or git's history. */
export function mayLeadOutside(text: string): boolean {
  return parentDirectory.test(text) || history.test(text);
}

/** Whether code, or a value that code may concatenate, can form a parent directory. */
export function mayBecomeParent(code: string): boolean {
  return /\.["'`]/.test(code);
}

/** Returns the code between `{{ }}` and `{% %}` without comments, in a single pass over untrusted text. */
export function codeOf(text: string): string {
  const parts: string[] = [];
  for (let at = nextBlock(text, 0); at !== -1;) {
    const isComment = /^\{\{-?[ \t\r\n]*\/\*/.test(text.slice(at, at + 100));
    const close = isComment ? "*/" : text.startsWith("{{", at) ? "}}" : "%}";
    const end = text.indexOf(close, at + 2);
    const block = text.slice(at, end === -1 ? undefined : end);
    // With a quote still open, the apparent end is inside a string, and the real end of the code is unknown.
    const isOpen = end === -1 || (!isComment && (block.match(/["'`]/g) ?? []).length % 2 === 1);
    if (isOpen) return [...parts, text.slice(at)].join("\n");
    if (!isComment) parts.push(block);
    at = nextBlock(text, end + 2);
  }
  return parts.join("\n");
}

function nextBlock(text: string, from: number): number {
  for (let at = text.indexOf("{", from); at !== -1; at = text.indexOf("{", at + 1)) {
    if (text[at + 1] === "{" || text[at + 1] === "%") return at;
  }
  return -1;
}
