/** What the resources of Flux have in common. Parsed leniently: what cannot be read counts as absent. */
import { z } from "zod";
import type { Condition } from "../../model.ts";

export const optionalText = z.string().nullish().catch(undefined);
export const optionalCount = z.number().nullish().catch(undefined);
export const optionalFlag = z.boolean().nullish().catch(undefined);

export const Metadata = z.object({
  name: z.string().min(1),
  namespace: z.string().min(1),
  uid: z.string().min(1),
  generation: z.number().catch(1),
  labels: z.record(z.string(), z.string()).nullish().catch(undefined),
  annotations: z.record(z.string(), z.string()).nullish().catch(undefined),
});

export const Conditions = z
  .array(
    z
      .object({
        type: z.string(),
        status: z.enum(["True", "False", "Unknown"]),
        reason: z.string().catch(""),
        message: z.string().catch(""),
        lastTransitionTime: z.string().catch(""),
        observedGeneration: optionalCount,
      })
      .optional()
      .catch(undefined),
  )
  .nullish()
  .catch(undefined);

/** Returns a function that finds a condition by its type. */
export function conditionsBy(parsed: z.infer<typeof Conditions>): (type: string) => Condition | undefined {
  const conditions = (parsed ?? []).flatMap((one): Condition[] =>
    one ? [{ ...one, observedGeneration: one.observedGeneration ?? undefined }] : [],
  );
  return (type) => conditions.find((one) => one.type === type);
}
