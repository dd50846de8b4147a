/** The images that ours is built from or runs beside, and whether each is pinned by its digest. Pure. */

interface Place {
  readonly file: string;
  /** Matches the text before the name, the name with its tag, and the digest if there is one. */
  readonly find: RegExp;
}

const digest = "sha256:[0-9a-f]{64}";

const places: readonly Place[] = [
  { file: "Dockerfile", find: new RegExp(`(?<=^ARG NODE_IMAGE=)(?<name>[^\\s@]+)(?:@(?<digest>${digest}))?$`, "gm") },
  {
    file: "docker-compose.yml",
    find: new RegExp(`(?<=^ +image: )(?<name>[^\\s@]+:[^\\s@]+)(?:@(?<digest>${digest}))?$`, "gm"),
  },
  {
    file: "dev/chart/values.ts",
    find: new RegExp(`(?<=")(?<name>valkey/valkey:[^\\s@"]+)(?:@(?<digest>${digest}))?(?=")`, "g"),
  },
];

export const pinnedFiles: readonly string[] = places.map(({ file }) => file);

export interface Pin {
  readonly file: string;
  /** `name:tag` */
  readonly reference: string;
  /** Absent if only the tag is given, which may move. */
  readonly digest?: string | undefined;
}

/** Throws if a file names no image where one is expected. */
export function findPins(file: string, text: string): Pin[] {
  const { find } = placeOf(file);
  const found = Array.from(text.matchAll(find), ({ groups = {} }) => ({
    file,
    reference: groups["name"] ?? "",
    digest: groups["digest"],
  }));
  if (found.length === 0) throw new Error(`${file}: no image found`);
  return found;
}

/** Returns the text of the file with the digest of each reference. */
export function writePins(file: string, text: string, digests: ReadonlyMap<string, string>): string {
  return text.replaceAll(placeOf(file).find, (whole, name: string) => {
    const found = digests.get(name);
    return found === undefined ? whole : `${name}@${found}`;
  });
}

/** `name:tag` of `name:tag@sha256:…`, or a tag without its digest. */
export function withoutDigest(reference: string): string {
  return reference.replace(/@.*/, "");
}

export function isDigest(text: string): boolean {
  return new RegExp(`^${digest}$`).test(text);
}

function placeOf(file: string): Place {
  const place = places.find((one) => one.file === file);
  if (place === undefined) throw new Error(`${file} is not a file with pinned images`);
  return place;
}
