/** Kinds of values that several parts of the schema have. */
import { z } from "zod";
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
