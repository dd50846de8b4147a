/**
 * Matches paths against globs as kluctl's login lists define them (https://github.com/gobwas/glob with `/` as
 * separator): `*` and `?` match within a path segment, `**` across segments; also `[abc]`, `[a-c]`, `[!a]`,
 * `{one,other}`, and `\` as escape. Globs are not converted to regular expressions, because a user who may write a
 * KluctlDeployment could craft one that runs forever. Pure.
 */

type Part =
  | { readonly kind: "fits"; readonly fits: (letter: string) => boolean }
  | { readonly kind: "many"; readonly crosses: boolean }
  | { readonly kind: "either"; readonly choices: readonly (readonly Part[])[] };

/** Longer than any real glob or repository path; longer ones match nothing. */
const longest = 1_000;

/** A malformed glob matches nothing, so that a login is not used where it was not meant to be. */
export function matchesGlob(glob: string, path: string): boolean {
  if (glob.length > longest || path.length > longest) return false;
  const reader = { letters: [...glob], at: 0 };
  const parts = readParts(reader, 0);
  if (parts === undefined) return false;
  const letters = [...path];
  return walk(parts, new Set([0]), letters).has(letters.length);
}

/**
 * Returns all positions in the text that the parts can lead to from the given ones. The work is bounded by glob length
 * × path length.
 */
function walk(parts: readonly Part[], from: ReadonlySet<number>, letters: readonly string[]): ReadonlySet<number> {
  return parts.reduce<ReadonlySet<number>>((places, part) => {
    if (places.size === 0) return places;
    if (part.kind === "either") return new Set(part.choices.flatMap((choice) => [...walk(choice, places, letters)]));
    const next = new Set<number>();
    if (part.kind === "fits") {
      for (const place of places) if (place < letters.length && part.fits(letters[place] ?? "")) next.add(place + 1);
      return next;
    }
    for (const place of places) {
      for (let at = place; !next.has(at); at++) {
        next.add(at);
        if (at >= letters.length || (letters[at] === "/" && !part.crosses)) break;
      }
    }
    return next;
  }, from);
}

interface Reader {
  readonly letters: readonly string[];
  at: number;
}

/** Reads to the end of the glob or of a choice. Returns `undefined` if it is malformed. */
function readParts(reader: Reader, depth: number): Part[] | undefined {
  const parts: Part[] = [];
  for (; reader.at < reader.letters.length; reader.at++) {
    const letter = reader.letters[reader.at];
    if (depth > 0 && (letter === "," || letter === "}")) return parts;
    const part = readPart(reader, letter, depth);
    if (part === undefined) return undefined;
    parts.push(part);
  }
  return depth === 0 ? parts : undefined;
}

/** Leaves the reader at the part's last letter. */
function readPart(reader: Reader, letter: string | undefined, depth: number): Part | undefined {
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
      return meant === undefined ? undefined : { kind: "fits", fits: (other) => other === meant };
    }
    default:
      return { kind: "fits", fits: (other) => other === letter };
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
