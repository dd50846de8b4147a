/** Kinds of values that several parts of the schema have. */
import { z } from "zod";
import { parseBytes } from "./bytes.ts";
import { Secret } from "./secret.ts";

export const text = z.string({ error: "must be text" }).trim().min(1, "must not be empty");

/** Not a secret yet, so that a part of the schema can restrict it. */
export const secretText = z.string({ error: "must be text: put it in quotes" }).trim().min(1, "is empty");

/** Restricted to characters allowed in a header: the error of an HTTP client would quote the token. */
export const token = secretText
  .regex(/^[\x21-\x7e]*$/, "contains a space, a line break or another character that is invalid in a token")
  .transform((value) => new Secret(value));

export function integer(least: number, most: number) {
  const error = `must be a whole number from ${least} to ${most}`;
  return z.int({ error }).min(least, error).max(most, error);
}

/** Text with a pattern for editors and Helm, and an error message of our own. */
export const written = (pattern: string, error: string) => z.string({ error }).meta({ pattern });
const sizePattern = "^\\s*[0-9]+ ?([KkMmGg][Ii]?[Bb]?)?\\s*$";

/** A size within bounds, as bytes. */
export function size(least: string, most: string) {
  const [leastBytes = 0, mostBytes = 0] = [parseBytes(least), parseBytes(most)];
  const error = `must be a size from ${least} to ${most}, like "10MiB", or a number of bytes`;
  return z.union([written(sizePattern, error), z.number()], { error }).transform((value, ctx) => {
    const bytes = parseBytes(String(value).trim());
    if (bytes !== undefined && bytes >= leastBytes && bytes <= mostBytes) return bytes;
    ctx.addIssue({ code: "custom", message: error });
    return z.NEVER;
  });
}
