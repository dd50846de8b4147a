/** Finds the values in a Secret, or in a list of Secrets, and has them replaced. Pure. */
import { z } from "zod";

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
export function hideInSecrets(document: unknown, toHiding: (secret: SecretDocument) => Hiding): unknown {
  const list = SecretList.safeParse(document).data;
  if (list) return { ...list, items: list.items?.map((item) => hideInSecret(item, toHiding(item))) ?? [] };
  const { data } = SecretDocument.safeParse(document);
  return data?.kind === undefined ? undefined : hideInSecret(data, toHiding(data));
}

function hideInSecret(secret: SecretDocument, hiding: Hiding): unknown {
  const { apiVersion, kind, metadata, type, immutable, data, stringData } = secret;
  const { annotations, managedFields, ...others } = metadata;
  const { namespace, name } = others;
  const of = [namespace ?? "", name ?? ""];
  const hidden = (values: Readonly<Record<string, unknown>>, encoding: Encoding) =>
    mapFields(values, (value, key) =>
      Buffer.from(hiding.value(toBytes(value, encoding), valueAt(of, key))).toString(encoding),
    );
  return {
    ...(kind && { kind }),
    ...(apiVersion && { apiVersion }),
    metadata: {
      ...others,
      ...(managedFields !== undefined && !hiding.hidesOwners && { managedFields }),
      ...(annotations && {
        annotations: mapFields(annotations, (text, key) => hiding.annotation(text, key, annotationAt(of, key))),
      }),
    },
    ...(immutable !== undefined && { immutable }),
    ...(data && { data: hidden(data, "base64") }),
    ...(stringData && { stringData: hidden(stringData, "utf8") }),
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

export function mapFields<T>(
  values: Readonly<Record<string, unknown>>,
  map: (value: unknown, key: string) => T,
): Record<string, T> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, map(value, key)] as const));
}
