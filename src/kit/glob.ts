/**
 * Globs for paths. They are not converted to regular expressions, because the users who write globs and paths could
 * craft some that run forever: a match takes time proportional to glob × path at most. Pure.
 */

type Part =
  | { readonly kind: "letter"; readonly letter: string }
  | { readonly kind: "fits"; readonly fits: (letter: string) => boolean }
  | { readonly kind: "many"; readonly crosses: boolean }
  | { readonly kind: "either"; readonly choices: readonly (readonly Part[])[] }
  /** Any number of whole `/name`. */
  | { readonly kind: "names" };

/** Longer than any real glob or repository path; longer ones match nothing. */
const longest = 1_000;

/**
 * Matches as kluctl's login lists define it (https://github.com/gobwas/glob with `/` as separator): `*` and `?` match
 * within a path segment, `**` across segments; also `[abc]`, `[a-c]`, `[!a]`, `{one,other}`, and `\` as escape. A
 * malformed glob matches nothing, so that a login is not used where it was not meant to be.
 */
export function matchesGlob(glob: string, path: string): boolean {
  if (glob.length > longest || path.length > longest) return false;
  const parts = parse(glob);
  return parts !== undefined && matches(parts, path);
}

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
  const literal = names.findIndex((name) => /[*?]/.test(name));
  const start = (literal === -1 ? names : names.slice(0, literal)).map((name) => `/${name}`).join("");
  const parts = literal === -1 ? [] : names.slice(literal).flatMap(toNameParts);
  const all: readonly Part[] = [...parts, { kind: "names" }];
  return (path) => `/${path}`.startsWith(start) && matches(all, `/${path}`.slice(start.length));
}

/** Within a name, `**` means the same as `*`. */
function toNameParts(name: string): readonly Part[] {
  return name === "**" ? [{ kind: "names" }] : (parse(`/${name.replace(/\*+/g, "*")}`) ?? []);
}

function matches(parts: readonly Part[], path: string): boolean {
  const letters = [...path];
  const places = new Uint8Array(letters.length + 1);
  places[0] = 1;
  walk(parts, places, letters);
  return places[letters.length] === 1;
}

/** `places` marks positions in the text; they are replaced by all those that the parts can lead to from there. */
function walk(parts: readonly Part[], places: Uint8Array, letters: readonly string[]): void {
  const end = letters.length;
  for (const part of parts) {
    if (!places.includes(1)) return;
    switch (part.kind) {
      case "letter":
        for (let at = end; at > 0; at--) places[at] = letters[at - 1] === part.letter ? places[at - 1]! : 0;
        places[0] = 0;
        break;
      case "fits":
        for (let at = end; at > 0; at--) places[at] = places[at - 1] && part.fits(letters[at - 1] ?? "") ? 1 : 0;
        places[0] = 0;
        break;
      case "many":
        for (let at = 0; at < end; at++) if (places[at] && (part.crosses || letters[at] !== "/")) places[at + 1] = 1;
        break;
      case "names": {
        let reached = false;
        for (let at = 0; at <= end; at++) {
          const isEndOfName = at === end || letters[at] === "/";
          reached ||= isEndOfName && places[at] === 1;
          places[at] = reached && isEndOfName ? 1 : 0;
        }
        break;
      }
      case "either": {
        const from = places.slice();
        places.fill(0);
        for (const choice of part.choices) {
          const chosen = from.slice();
          walk(choice, chosen, letters);
          for (let at = 0; at <= end; at++) places[at]! |= chosen[at]!;
        }
      }
    }
  }
}

interface Reader {
  readonly letters: readonly string[];
  at: number;
}

/** Returns `undefined` if the glob is malformed. */
function parse(glob: string): readonly Part[] | undefined {
  return readParts({ letters: [...glob], at: 0 }, 0);
}

/** Reads to the end of the glob or of a choice. Returns `undefined` if it is malformed. */
function readParts(reader: Reader, depth: number): Part[] | undefined {
  const parts: Part[] = [];
  for (; reader.at < reader.letters.length; reader.at++) {
    const letter = reader.letters[reader.at]!;
    if (depth > 0 && (letter === "," || letter === "}")) return parts;
    const part = readPart(reader, letter, depth);
    if (part === undefined) return undefined;
    parts.push(part);
  }
  return depth === 0 ? parts : undefined;
}

/** Leaves the reader at the part's last letter. */
function readPart(reader: Reader, letter: string, depth: number): Part | undefined {
  switch (letter) {
    case "*": {
      const crosses = reader.letters[reader.at + 1] === "*";
      if (crosses) reader.at++;
      return { kind: "many", crosses };
    }
    case "?":
      return { kind: "fits", fits: (other) => other !== "/" };
    case "[":
      return readClass(reader);
    case "{":
      return readChoices(reader, depth + 1);
    case "\\": {
      const meant = reader.letters[++reader.at];
      return meant === undefined ? undefined : { kind: "letter", letter: meant };
    }
    default:
      return { kind: "letter", letter };
  }
}

function readClass(reader: Reader): Part | undefined {
  const end = reader.letters.indexOf("]", reader.at + 2);
  if (end === -1) return undefined;
  const inside = reader.letters.slice(reader.at + 1, end);
  reader.at = end;
  const negated = inside[0] === "!";
  const letters = negated ? inside.slice(1) : inside;
  const [first = "", dash, last = ""] = letters;
  const isRange = letters.length === 3 && dash === "-";
  return {
    kind: "fits",
    fits: (other) => (isRange ? first <= other && other <= last : letters.includes(other)) !== negated,
  };
}

function readChoices(reader: Reader, depth: number): Part | undefined {
  const choices: Part[][] = [];
  do {
    reader.at++;
    const choice = readParts(reader, depth);
    if (choice === undefined) return undefined;
    choices.push(choice);
  } while (reader.letters[reader.at] === ",");
  return { kind: "either", choices };
}
