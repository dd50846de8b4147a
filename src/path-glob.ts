/**
 * Globs over paths of a repository, matched in time that grows with pattern × path and no faster: the patterns come
 * from whoever may write a KluctlDeployment, the paths from whoever may push, and a regular expression made of the
 * former could be kept busy for minutes by the latter. Pure.
 */

export type PathGlob = (path: string) => boolean;

/** Room for dozens of globs. Each costs time for each path that was pushed, and there may be thousands of those. */
const longestText = 2_000;

/**
 * Globs separated by commas or new lines, relative to the repository's root: `*` and `?` within a name, `**` for any
 * number of directories. A glob means what it matches and everything below that. `undefined` if one of them asks for
 * more (`!`, `{}`, `[]`, `()`, `\`), or if there are too many.
 */
export function parsePathGlobs(text: string): readonly PathGlob[] | undefined {
  if (text.length > longestText) return undefined;
  const globs = text
    .split(/[,\n]/)
    .map((glob) => glob.trim())
    .filter((glob) => glob !== "");
  if (globs.some((glob) => /[!{}[\]()\\]/.test(glob))) return undefined;
  return globs.map(toPathGlob);
}

function toPathGlob(glob: string): PathGlob {
  const names = glob.split("/").filter((name) => name !== "" && name !== ".");
  const pattern = [...names.map((name) => (name === "**" ? undefined : [...name])), undefined];
  return (path) =>
    matches(
      pattern,
      path.split("/"),
      (part) => part === undefined,
      (part, name) => part !== undefined && matchesName(part, name),
    );
}

function matchesName(pattern: readonly string[], name: string): boolean {
  return matches(
    pattern,
    [...name],
    (part) => part === "*",
    (part, letter) => part === "?" || part === letter,
  );
}

/**
 * Matches a list against a pattern in which some parts stand for any number of items. When an item does not fit, only
 * the last such part has to take one more: what earlier ones took cannot matter any longer.
 */
function matches<Part, Item>(
  pattern: readonly Part[],
  items: readonly Item[],
  standsForMany: (part: Part) => boolean,
  fits: (part: Part, item: Item) => boolean,
): boolean {
  let part = 0;
  let item = 0;
  let many: { readonly next: number; taken: number } | undefined;
  while (item < items.length) {
    const current = pattern[part] as Part;
    if (part < pattern.length && standsForMany(current)) {
      many = { next: ++part, taken: item };
    } else if (part < pattern.length && fits(current, items[item] as Item)) {
      part++;
      item++;
    } else if (many) {
      part = many.next;
      item = ++many.taken;
    } else {
      return false;
    }
  }
  return pattern.slice(part).every(standsForMany);
}
