/** Semantic versions and ranges of them, in the grammar of Masterminds/semver, which Flux and Helm use. Pure. */

export interface Version {
  readonly numbers: readonly [number, number, number];
  readonly prerelease: readonly string[];
}

const versionForm =
  /^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?$/;
/** Longer than any version that is meant as one. */
const longest = 256;

/** Parses `1.2.3` or `v1.2.3`, as Flux does for tags: all three numbers are required. */
export function parseVersion(text: string): Version | undefined {
  const found = text.length > longest ? null : versionForm.exec(text);
  if (found === null) return undefined;
  const [, major, minor, patch, prerelease] = found;
  const numbers = [Number(major), Number(minor), Number(patch)] as const;
  return { numbers, prerelease: prerelease === undefined ? [] : prerelease.split(".") };
}

/** Negative if `a` is lower. A prerelease is lower than its release. */
export function compareVersions(a: Version, b: Version): number {
  for (const [i, number] of a.numbers.entries()) {
    const difference = number - (b.numbers[i] ?? 0);
    if (difference !== 0) return difference;
  }
  if (a.prerelease.length === 0 || b.prerelease.length === 0) return b.prerelease.length - a.prerelease.length;
  for (const [i, part] of a.prerelease.entries()) {
    const other = b.prerelease[i];
    if (other === undefined) return 1;
    const difference = compareParts(part, other);
    if (difference !== 0) return difference;
  }
  return a.prerelease.length - b.prerelease.length;
}

/** Numbers are lower than words. */
function compareParts(a: string, b: string): number {
  const [isNumber, isOther] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (isNumber && isOther) return Number(a) - Number(b);
  if (isNumber !== isOther) return isNumber ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

type Accepts = (version: Version) => boolean;

/** A bound such as `>=1.2`. */
interface Bound {
  readonly operator: string;
  readonly version: Version;
  /** The first number that is missing or a wildcard; 3 if all are given. */
  readonly open: number;
}

const part = "(?:\\d+|[xX*])";
const boundForm = new RegExp(
  `^(=|!=|>=|=>|<=|=<|>|<|~>|~|\\^)?v?(${part})(?:\\.(${part}))?(?:\\.(${part}))?(?:-([0-9A-Za-z-]+(?:\\.[0-9A-Za-z-]+)*))?(?:\\+[0-9A-Za-z.-]+)?$`,
);

/** Returns whether a version is in the range; `undefined` if the text is not a range. */
export function parseVersionRange(text: string): Accepts | undefined {
  if (text.length > longest) return undefined;
  const alternatives = text.split("||").map(parseBounds);
  if (alternatives.includes(undefined)) return undefined;
  const known = alternatives.filter((bounds) => bounds !== undefined);
  return (version) =>
    known.some((bounds) => mayBe(version, bounds) && bounds.every((bound) => accepts(bound, version)));
}

/** All bounds of one alternative: `>=1.2 <2`, `>=1.2, <2` or `1.2 - 2`. */
function parseBounds(text: string): readonly Bound[] | undefined {
  const ranged = text.replaceAll(/(\S+)\s+-\s+(\S+)/g, ">=$1 <=$2");
  // An operator may be apart from its version.
  const words = ranged.replaceAll(/([=!<>~^])\s+/g, "$1").split(/[\s,]+/);
  const bounds = words.filter((word) => word !== "").map(parseBound);
  return bounds.length === 0 || bounds.includes(undefined) ? undefined : bounds.filter((one) => one !== undefined);
}

function parseBound(word: string): Bound | undefined {
  const found = boundForm.exec(word);
  if (found === null) return undefined;
  const [, operator = "", ...given] = found;
  const numbers = given.slice(0, 3);
  const firstOpen = numbers.findIndex((number) => number === undefined || !/^\d+$/.test(number));
  const open = firstOpen === -1 ? 3 : firstOpen;
  const [major = 0, minor = 0, patch = 0] = numbers.map((number, i) => (i < open ? Number(number) : 0));
  return { operator, open, version: { numbers: [major, minor, patch], prerelease: given[3]?.split(".") ?? [] } };
}

/** A prerelease is only in ranges that name one. */
function mayBe({ prerelease }: Version, bounds: readonly Bound[]): boolean {
  return prerelease.length === 0 || bounds.some(({ version }) => version.prerelease.length > 0);
}

function accepts({ operator, version: bound, open }: Bound, version: Version): boolean {
  const order = compareVersions(version, bound);
  const [major, minor, patch] = version.numbers.map((number, i) => number === bound.numbers[i]);
  const isOpen = open < 3;
  switch (operator) {
    case "!=":
      if (!isOpen) return order !== 0;
      return open === 0 ? false : !major || (open > 1 && !minor);
    case ">":
      if (!isOpen) return order > 0;
      return open === 0 ? false : !isWithin(version, bound, open) && order > 0;
    case "<":
      return order < 0;
    case ">=":
    case "=>":
      return order >= 0;
    case "<=":
    case "=<":
      return order <= 0 || (isOpen && isWithin(version, bound, open));
    case "^":
      if (order < 0) return false;
      if (open === 0) return true;
      if (bound.numbers[0] > 0 || open === 1) return major === true;
      if (bound.numbers[1] > 0 || open === 2) return major === true && minor === true;
      return major === true && minor === true && patch === true;
    case "":
    case "=":
      if (!isOpen) return order === 0;
      return order >= 0 && isWithin(version, bound, open);
    default: // ~ and ~>
      return order >= 0 && (isZero(bound, open) || isWithin(version, bound, Math.min(open, 2)));
  }
}

/** Whether the first numbers are equal. */
function isWithin(version: Version, bound: Version, count: number): boolean {
  return version.numbers.slice(0, count).every((number, i) => number === bound.numbers[i]);
}

/** `~0.0.0` accepts every version. */
function isZero({ numbers }: Version, open: number): boolean {
  return open === 3 && numbers.every((number) => number === 0);
}
