/**
 * Globs for paths of a repository, matched in time proportional to pattern × path at most. The patterns come from users
 * who can write a KluctlDeployment and the paths from users who can push; with regular expressions, they could keep the
 * server busy for minutes. Pure.
 */

export type PathGlob = (path: string) => boolean;

/** Enough for dozens of globs. Each is matched against every pushed path, and there may be thousands of paths. */
const longestText = 2_000;

/**
 * Parses globs separated by commas or newlines, relative to the repository's root: `*` and `?` within a name, `**` for
 * any number of directories. A glob matches a path and everything below it. Returns `undefined` if a glob uses other
 * syntax (`!`, `{}`, `[]`, `()`, `\`) or the text is too long.
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
 * Matches a list against a pattern in which some parts stand for any number of items. On a mismatch, only the last such
 * part needs to take one more item: what earlier ones took no longer matters.
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
