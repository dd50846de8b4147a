/**
 * The body of a DELETE request. If there is a body, the API server takes its options only from there and ignores the
 * query: without `dryRun` in the body, the object would be deleted whatever the query says. Pure.
 */
import { z } from "zod";
import { parseJson } from "../kit/json.ts";
import { Refusal } from "./refusal.ts";

const DeleteOptions = z.strictObject({
  kind: z.literal("DeleteOptions").optional(),
  apiVersion: z.string().optional(),
  gracePeriodSeconds: z.int().nullish(),
  propagationPolicy: z.string().nullish(),
  orphanDependents: z.boolean().nullish(),
  preconditions: z.strictObject({ uid: z.string().nullish(), resourceVersion: z.string().nullish() }).nullish(),
  dryRun: z.tuple([z.literal("All")]).nullish(),
});

/** Throws Refusal. */
export function toDryRunDelete(body: Buffer, query: Readonly<Record<string, unknown>>): Buffer {
  const { success, data } = DeleteOptions.safeParse(body.length === 0 ? query : parseJson(body.toString("utf8")));
  if (!success) throw new Refusal(400, "a preview cannot delete with these options");
  return Buffer.from(JSON.stringify({ ...data, kind: "DeleteOptions", apiVersion: "v1", dryRun: ["All"] }));
}
