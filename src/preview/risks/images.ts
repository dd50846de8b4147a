/**
 * Compares the images of a container: whether the new one is older, or its tag may be moved to another image. Only what
 * can be read from the references is known: no registry is asked.
 */

interface Image {
  readonly name: string;
  readonly tag?: string | undefined;
  readonly isPinned: boolean;
}

/** A reference has at most 255 characters for its name, 128 for its tag, and a digest. */
const longestReference = 1_000;

function parseImage(reference: unknown): Image | undefined {
  if (typeof reference !== "string" || reference === "" || reference.length > longestReference) return undefined;
  const [named = "", digest] = reference.split("@", 2);
  const colon = named.indexOf(":", named.lastIndexOf("/") + 1);
  const isPinned = digest !== undefined;
  return colon === -1
    ? { name: named, isPinned }
    : { name: named.slice(0, colon), tag: named.slice(colon + 1), isPinned };
}

/** Whether the same image goes back to a lower version. */
export function isDowngrade(before: unknown, after: unknown): boolean {
  const [old, now] = [parseImage(before), parseImage(after)];
  if (old === undefined || now === undefined || old.name !== now.name) return false;
  const [oldVersion, newVersion] = [parseVersion(old.tag), parseVersion(now.tag)];
  return oldVersion !== undefined && newVersion !== undefined && isLower(newVersion, oldVersion);
}

/**
 * Names that projects move to their newest image, also of a variant such as `latest-alpine3.20`. Another suffix may be a
 * commit, so that the tag is fixed.
 */
const movingTag =
  /^(?:latest|main|master|trunk|head|develop|dev|devel|edge|nightly|canary|next|current|rolling|stable|release|production|prod|staging|testing|test|lts|snapshot)(?:[-_.](?:alpine|slim|debian|trixie|bookworm|bullseye|buster|ubuntu|noble|jammy|focal|distroless|nonroot|rootless|debug|amd64|arm64)[\d.]{0,8})*$/i;

/** Whether a tag replaces a fixed one that projects usually move. For a new container, only `latest` and no tag count. */
export function startsToMove(before: unknown, after: unknown): boolean {
  const now = parseImage(after);
  if (now === undefined || now.isPinned) return false;
  const old = parseImage(before);
  if (old === undefined) return isLatest(now);
  return moves(now) && !moves(old);
}

function moves(image: Image): boolean {
  return !image.isPinned && (isLatest(image) || movingTag.test(image.tag ?? ""));
}

/** The container runtime adds `latest` where there is no tag. */
function isLatest({ tag }: Image): boolean {
  return tag === undefined || tag === "latest";
}

interface Version {
  readonly numbers: readonly number[];
  /** The number of digits of the first number, which says how exact a date is. */
  readonly width: number;
  /** Smaller is earlier; a release comes after its candidates. */
  readonly stage: number;
  readonly stageNumber: number;
}

const stages = ["alpha", "beta", "rc", ""];
const writtenVersion = /^v?(\d{1,15}(?:\.\d{1,15}){0,4})(?:[-._+]?(alpha|beta|rc)[-._]?(\d{0,9}))?(?:[-_+.].*)?$/i;

function parseVersion(tag: string | undefined): Version | undefined {
  const [, digits, stage = "", stageNumber = ""] = writtenVersion.exec(tag ?? "") ?? [];
  if (digits === undefined || isHash(digits)) return undefined;
  const parts = digits.split(".");
  return {
    numbers: parts.map(Number),
    width: parts[0]?.length ?? 0,
    stage: stages.indexOf(stage.toLowerCase()),
    stageNumber: Number(stageNumber),
  };
}

/** Of the numbers of six or more digits, only dates count: others may be the beginning of a commit's hash. */
function isHash(digits: string): boolean {
  return digits.length >= 6 && !digits.includes(".") && !/^(?:19|20)\d{6}(?:\d{4}|\d{6})?$/.test(digits);
}

/** `1.25` may be any 1.25.x, so only the numbers that both have are compared. */
function isLower(now: Version, old: Version): boolean {
  if (isDate(now) !== isDate(old) || (isDate(now) && now.width !== old.width)) return false;
  for (const [i, number] of now.numbers.entries()) {
    const other = old.numbers[i];
    if (other === undefined) return false;
    if (number !== other) return number < other;
  }
  if (now.numbers.length !== old.numbers.length) return false;
  return now.stage === old.stage ? now.stageNumber < old.stageNumber : now.stage < old.stage;
}

/** Dates and numbers of releases are different schemes, of which neither is older. */
function isDate({ numbers: [first = 0] }: Version): boolean {
  return first >= 1_900;
}
