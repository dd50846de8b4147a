/** Removes secrets from text before it is written. Pure. */

const mask = "***";

// Everything before the last @ of a URL's authority, greedy: a password may contain an @ itself.
const userInfo = /(\bssh)?:\/\/([^\s/"\\]+)@/g;

/** Values that must not be written; more can be added. */
export interface SecretList {
  scrub(text: string): string;
  add(values: readonly string[]): void;
}

export function createSecretList(values: readonly string[]): SecretList {
  const known = new Set(values);
  let scrub = createScrubber(values);
  return {
    scrub: (text) => scrub(text),
    add(more) {
      if (more.every((value) => known.has(value))) return;
      for (const value of more) known.add(value);
      scrub = createScrubber([...known]);
    },
  };
}

/**
 * Returns a function that masks the values wherever they appear in a text, also in their JSON and URL encodings, and
 * the credentials in all URLs; user names of ssh URLs are kept. Values under eight characters are not masked: they
 * would garble ordinary words, and are too short for a secret.
 */
export function createScrubber(secretValues: readonly string[]): (text: string) => string {
  const spellings = secretValues
    .filter((value) => value.length >= 8)
    .flatMap((value) => [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value)]);
  // Longest first: one secret may be the beginning of another.
  const unique = [...new Set(spellings)].sort((one, other) => other.length - one.length);
  const known =
    unique.length > 0
      ? new RegExp(unique.map((text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|"), "g")
      : undefined;
  return (text) => {
    const clean = known ? text.replace(known, mask) : text;
    if (!clean.includes("://")) return clean;
    return clean.replace(userInfo, (whole, ssh: string | undefined, login: string) =>
      ssh && !login.includes(":") ? whole : `${ssh ?? ""}://${mask}@`,
    );
  };
}
