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
