/**
 * Which code of a Jinja2 template may give something else another time, or reads more than the files of its project.
 * What merely looks like it counts: a name in a text may become the name of a filter. Pure.
 */

/**
 * `map` and `attr` with anything but a plain name: which filter or attribute that is shows only while it is rendered. So
 * does what `render` is given.
 */
const hidesNames = String.raw`\b(?:map|attr)\s*\(\s*(?!attribute\s*=|(?:"\w+"|'\w+')\s*[,)])|\bmap\s*\(\s*["']map["']`;
/** kluctl's clock in a JSON path of `get_var`; and what reaches behind everything else. */
const hidden = String.raw`\$\.+time\b|__`;

/** In braces: kluctl's clock, Jinja2's chance, and what reaches behind either. */
const unsteadyCode = new RegExp(String.raw`(?<![.\w])(?:time|lipsum|random|render)\b|${hidden}|${hidesNames}`);
/** Where code has no braces, and stands between other words. */
const unsteadyWords = new RegExp(
  String.raw`(?<![.\w])time\s*[.[|]|["']time["']|(?:\||["'])\s*random\b|(?<![.\w])(?:lipsum|render)\s*\(|${hidden}|${hidesNames}`,
);

/** A directory above; a lone dot to make one of; and what says the same in other words, or to nobody who has no key. */
const parentDirectory = /(?<!\.)\.\.(?!\.)|\\(?:x2e|u002e)|\bENC\[/i;
/** Which commit last changed a file, by kluctl's function or from git's own files. */
const history = /\bload_\w*git\w*|(?<![\w-])\.git(?![\w.-])/;

/** `code`: what stands in braces. */
export function isUnsteadyCode(code: string): boolean {
  return unsteadyCode.test(code);
}

/** `text`: what may hold code without braces, such as a condition. */
export function hasUnsteadyWords(text: string): boolean {
  return unsteadyWords.test(text);
}

/** Whether a text may name what lies outside of the project's directory: a directory above, or git's history. */
export function mayLeadOutside(text: string): boolean {
  return parentDirectory.test(text) || history.test(text);
}

/** The same of code, or of what code may join with something else. */
export function mayBecomeParent(code: string): boolean {
  return /\.["'`]/.test(code);
}
