/** Which images ours is made of, or runs beside, and whether each is pinned by its digest. Pure. */

interface Place {
  readonly file: string;
  /** What stands before the name, the name with its tag, and the digest if there is one. */
  readonly find: RegExp;
  /** What goes between name and digest, where the two do not stand together. */
  readonly toReference?: (name: string) => string;
  readonly toText?: (name: string, digest: string) => string;
}

const digest = "sha256:[0-9a-f]{64}";

/** The chart's Valkey is a repository and a tag apart. */
const places: readonly Place[] = [
  { file: "Dockerfile", find: new RegExp(`(?<=^ARG NODE_IMAGE=)(?<name>[^\\s@]+)(?:@(?<digest>${digest}))?$`, "gm") },
  {
    file: "docker-compose.yml",
    find: new RegExp(`(?<=^ +image: )(?<name>[^\\s@]+:[^\\s@]+)(?:@(?<digest>${digest}))?$`, "gm"),
  },
  {
    file: "dev/chart/values.ts",
    find: new RegExp(
      `(?<=image\\()(?<name>"valkey/valkey", "[\\w.-]+", "Tag\\.")(?:, "(?<digest>${digest})")?(?=\\))`,
      "g",
    ),
    toReference: (name) =>
      name
        .split(", ")
        .slice(0, 2)
        .map((part) => part.replaceAll('"', ""))
        .join(":"),
    toText: (name, found) => `${name}, "${found}"`,
  },
];

export const pinnedFiles: readonly string[] = places.map(({ file }) => file);

export interface Pin {
  readonly file: string;
  /** `name:tag` */
  readonly reference: string;
  /** Absent: whatever the tag is moved to. */
  readonly digest?: string | undefined;
}

/** Throws if a file names no image where one is expected. */
export function findPins(file: string, text: string): Pin[] {
  const { find, toReference = (name: string) => name } = placeOf(file);
  const found = Array.from(text.matchAll(find), ({ groups = {} }) => ({
    file,
    reference: toReference(groups["name"] ?? ""),
    digest: groups["digest"],
  }));
  if (found.length === 0) throw new Error(`${file} names no image where one was expected`);
  return found;
}

/** The file with the digest of each reference. */
export function writePins(file: string, text: string, digests: ReadonlyMap<string, string>): string {
  const {
    find,
    toReference = (name: string) => name,
    toText = (name: string, found: string) => `${name}@${found}`,
  } = placeOf(file);
  return text.replaceAll(find, (whole, name: string) => {
    const found = digests.get(toReference(name));
    return found === undefined ? whole : toText(name, found);
  });
}

export function isDigest(text: string): boolean {
  return new RegExp(`^${digest}$`).test(text);
}

function placeOf(file: string): Place {
  const place = places.find((one) => one.file === file);
  if (place === undefined) throw new Error(`${file} is no file with images`);
  return place;
}
