/** A custom resource as the API server returns it, before its API translates it. */
import { z } from "zod";
import type { Key } from "../model.ts";

const fields = z.record(z.string(), z.unknown()).catch({});
const texts = z.record(z.string(), z.string()).catch({});

const Resource = z.object({
  metadata: z.looseObject({
    name: z.string().min(1),
    namespace: z.string().min(1),
    uid: z.string().min(1),
    resourceVersion: z.string().catch(""),
    generation: z.number().optional().catch(undefined),
    annotations: texts,
    labels: texts,
    finalizers: z.array(z.string()).catch([]),
    deletionTimestamp: z.string().optional().catch(undefined),
  }),
  spec: fields,
  status: fields,
});

export type ApiResource = z.output<typeof Resource>;

/** Returns `undefined` only if the resource has no name or UID. */
export function parseResource(resource: unknown): ApiResource | undefined {
  return Resource.safeParse(resource).data;
}

export function keyOf({ metadata }: ApiResource): Key {
  return { namespace: metadata.namespace, name: metadata.name };
}
