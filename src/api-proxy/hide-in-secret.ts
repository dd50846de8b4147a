/** Finds the values in a Secret, or in a list of Secrets, and has them replaced. Pure, but for pauses. */
import { z } from "zod";
import { createPauses, type Pause } from "../kit/pauses.ts";

/** Namespace and name of a Secret, followed by the path of the value in it. */
export type Place = readonly string[];

/** Returns what to show instead of a value, or of an annotation, which may repeat values. */
export interface Hiding {
  value(value: Buffer, at: Place): string;
  annotation(text: unknown, name: string, at: Place): unknown;
  /** Whether to leave out who owns which fields: an attempted write owns only what it changes. */
  readonly hidesOwners: boolean;
}

export type SecretDocument = z.output<typeof SecretDocument>;

const fields = z.record(z.string(), z.unknown());
const SecretDocument = z.looseObject({
  apiVersion: z.string().optional(),
  kind: z.literal("Secret").optional(), // items of a list may lack it
  metadata: z.looseObject({
    namespace: z.string().nullish(),
    name: z.string().nullish(),
    annotations: fields.nullish(),
  }),
  type: z.string().optional(),
  immutable: z.boolean().nullish(),
  data: fields.nullish(),
  stringData: fields.nullish(),
});
const SecretList = z.object({
  apiVersion: z.string().optional(),
  kind: z.literal("SecretList"),
  metadata: z.unknown(),
  items: z.array(SecretDocument).nullish(),
});

/** Returns `undefined` if the document is neither a Secret nor a list of Secrets. */
export async function hideInSecrets(document: unknown, toHiding: (secret: SecretDocument) => Hiding): Promise<unknown> {
  const pause = createPauses();
  const list = SecretList.safeParse(document).data;
  if (list) {
    const items: unknown[] = [];
    for (const item of list.items ?? []) items.push(await hideInSecret(item, toHiding(item), pause));
    return { ...list, items };
  }
  const { data } = SecretDocument.safeParse(document);
  return data?.kind === undefined ? undefined : hideInSecret(data, toHiding(data), pause);
}

async function hideInSecret(secret: SecretDocument, hiding: Hiding, pause: Pause): Promise<unknown> {
  const { apiVersion, kind, metadata, type, immutable, data, stringData } = secret;
  const { annotations, managedFields, ...others } = metadata;
  const { namespace, name } = others;
  const of = [namespace ?? "", name ?? ""];
  const hidden = (values: Readonly<Record<string, unknown>>, encoding: Encoding) =>
    mapFields(values, pause, (value, key) =>
      Buffer.from(hiding.value(toBytes(value, encoding), valueAt(of, key))).toString(encoding),
    );
  return {
    ...(kind && { kind }),
    ...(apiVersion && { apiVersion }),
    metadata: {
      ...others,
      ...(managedFields !== undefined && !hiding.hidesOwners && { managedFields }),
      ...(annotations && {
        annotations: await mapFields(annotations, pause, (text, key) =>
          hiding.annotation(text, key, annotationAt(of, key)),
        ),
      }),
    },
    ...(immutable !== undefined && { immutable }),
    ...(data && { data: await hidden(data, "base64") }),
    ...(stringData && { stringData: await hidden(stringData, "utf8") }),
    ...(type !== undefined && { type }),
  };
}

/** The encoding of `data`, and of `stringData`. */
export type Encoding = "base64" | "utf8";

export function toBytes(value: unknown, encoding: Encoding): Buffer {
  return typeof value === "string" ? Buffer.from(value, encoding) : Buffer.from(JSON.stringify(value) ?? "");
}

export const valueAt = (of: Place, key: string): Place => [...of, "data", key];
export const annotationAt = (of: Place, key: string): Place => [...of, "annotations", key];

/** A Secret may have tens of thousands of values: masking them without a pause would block the event loop for seconds. */
export async function mapFields<T>(
  values: Readonly<Record<string, unknown>>,
  pause: Pause,
  map: (value: unknown, key: string) => T,
): Promise<Record<string, T>> {
  const mapped: (readonly [string, T])[] = [];
  for (const [key, value] of Object.entries(values)) {
    const pausing = pause();
    if (pausing) await pausing;
    mapped.push([key, map(value, key)]);
  }
  return Object.fromEntries(mapped);
}
