/** Parses the `WWW-Authenticate` header (RFC 9110, section 11). Pure. */

export interface Challenge {
  /** In lower case. */
  readonly scheme: string;
  /** Keyed by lower-cased name. */
  readonly parameters: Readonly<Record<string, string>>;
}

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const parameter = new RegExp(`^\\s*(${token})\\s*=\\s*(?:"((?:[^"\\\\]|\\\\.)*)"|(${token}))\\s*(?:,|$)`);
const scheme = new RegExp(`^[\\s,]*(${token})(?:\\s+|,|$)`);

/** Longer than any real header. */
const longest = 8_000;

/** Returns all challenges in order; parsing stops at the first malformed part. */
export function parseChallenges(header: string | undefined): Challenge[] {
  const challenges: Challenge[] = [];
  let rest = (header ?? "").slice(0, longest);
  for (let found = scheme.exec(rest); found !== null; found = scheme.exec(rest)) {
    rest = rest.slice(found[0].length);
    const parameters: Record<string, string> = {};
    for (let pair = parameter.exec(rest); pair !== null; pair = parameter.exec(rest)) {
      rest = rest.slice(pair[0].length);
      const [, name = "", quoted, plain = ""] = pair;
      parameters[name.toLowerCase()] = quoted?.replace(/\\(.)/g, "$1") ?? plain;
    }
    challenges.push({ scheme: (found[1] ?? "").toLowerCase(), parameters });
  }
  return challenges;
}
