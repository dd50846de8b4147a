/**
 * What a run gets to see instead of the values of Secrets: a keyed hash of each, by a key that lives as long as the run. Equal
 * values look equal, so that a diff is right, and nobody can tell from a mask what it stands for.
 */
import { createHmac, randomBytes } from "node:crypto";
import { isUtf8 } from "node:buffer";
import { z } from "zod";
import { maskFields } from "./mask-fields.ts";
import { Refusal, toStatus } from "./refusal.ts";

export interface SecretMasks {
  /** An answer about Secrets, without their values. Throws Refusal for one that is none. */
  answer(document: unknown): unknown;
  /** What is written about a Secret, with the values that its masks stand for: a project may have copied some. */
  unmask(document: unknown): unknown;
  /** The values that were masked: nobody else may show them either. */
  values(): string[];
}

const mask = /^masked-([0-9a-f]{32})([0-9a-f]{12})$/;
const masksIn = /masked-[0-9a-f]{44}/g;
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration";
/** All values of a run together. They stay in memory until it ends. */
const mostBytes = 16 * 2 ** 20;
/** Shorter ones are found in too many texts by chance. */
const leastLength = 6;

const fields = z.record(z.string(), z.unknown());
const Secret = z.looseObject({
  apiVersion: z.string().optional(),
  kind: z.literal("Secret").optional(), // the items of a list may lack it
  metadata: z.looseObject({ annotations: fields.nullish() }),
  type: z.string().optional(),
  immutable: z.boolean().nullish(),
  data: fields.nullish(),
  stringData: fields.nullish(),
});
const Secrets = z.object({
  apiVersion: z.string().optional(),
  kind: z.literal("SecretList"),
  metadata: z.unknown(),
  items: z.array(Secret).nullish(),
});
const Cause = z.object({ reason: z.string().optional(), field: z.string().optional(), message: z.string().optional() });
const Status = z.object({
  kind: z.literal("Status"),
  status: z.string().optional(),
  message: z.string().optional(),
  reason: z.string().optional(),
  code: z.number().optional(),
  details: z
    .object({
      name: z.string().optional(),
      group: z.string().optional(),
      kind: z.string().optional(),
      uid: z.string().optional(),
      retryAfterSeconds: z.number().optional(),
      causes: z.array(Cause).nullish(),
    })
    .nullish(),
});

export function createSecretMasks(): SecretMasks {
  const key = randomBytes(32);
  const values = new Map<string, Buffer>();
  /** Mask of the whole → what is shown of it. */
  const shown = new Map<string, string>();
  let bytes = 0;

  const hash = (what: string, value: Buffer | string) =>
    createHmac("sha256", key).update(what).update(value).digest("hex");

  /** A second hash tells this run's own masks from what only looks like one. */
  function isOwn(text: string): boolean {
    const [, body, check] = mask.exec(text) ?? [];
    return body !== undefined && hash("check", body).slice(0, 12) === check;
  }

  function toMask(value: Buffer): string {
    const text = value.toString("latin1");
    if (isOwn(text)) return text;
    const body = hash("value", value).slice(0, 32);
    const made = `masked-${body}${hash("check", body).slice(0, 12)}`;
    if (!values.has(made)) {
      bytes += value.length;
      if (bytes > mostBytes)
        throw new Refusal(413, `a preview may not read more than ${mostBytes / 2 ** 20} MiB of Secrets`);
      values.set(made, value);
    }
    return made;
  }

  /** The mask of the whole stands above masks of fields, so that the two are equal where the values are. */
  function toShown(value: Buffer): string {
    const whole = toMask(value);
    let text = shown.get(whole);
    if (text === undefined) {
      const inFields = maskFields(value, (field) => toMask(Buffer.from(field)));
      text = inFields === undefined ? whole : `# ${whole}\n${inFields}`;
      shown.set(whole, text);
    }
    return text;
  }

  const toBytes = (value: unknown, encoding: "base64" | "utf8") =>
    typeof value === "string" ? Buffer.from(value, encoding) : Buffer.from(JSON.stringify(value) ?? "");

  function maskData(data: Readonly<Record<string, unknown>>, encoding: "base64" | "utf8"): Record<string, string> {
    const masked = Object.entries(data).map(([name, value]) => {
      const text = toShown(toBytes(value, encoding));
      return [name, encoding === "base64" ? Buffer.from(text).toString("base64") : text] as const;
    });
    return Object.fromEntries(masked);
  }

  /** Annotations in which tools keep the whole object, or a value of it. */
  function maskAnnotations(texts: Readonly<Record<string, unknown>>, own: readonly string[]): Record<string, unknown> {
    const masked = Object.entries(texts).map(([name, text]) => {
      const tells = name === lastApplied || (typeof text === "string" && own.some((value) => text.includes(value)));
      return [name, tells ? toMask(toBytes(text, "utf8")) : text] as const;
    });
    return Object.fromEntries(masked);
  }

  function maskSecret({
    apiVersion,
    kind,
    metadata,
    type,
    immutable,
    data,
    stringData,
  }: z.output<typeof Secret>): unknown {
    const plain = [
      ...Object.values(data ?? {}).flatMap((value) => [String(value), toBytes(value, "base64").toString("utf8")]),
      ...Object.values(stringData ?? {}).map(String),
    ].filter((value) => value.length >= leastLength);
    const { annotations } = metadata;
    return {
      ...(kind && { kind }),
      ...(apiVersion && { apiVersion }),
      metadata: {
        ...metadata,
        ...(annotations && { annotations: maskAnnotations(annotations, plain) }),
      },
      ...(immutable !== undefined && { immutable }),
      ...(data && { data: maskData(data, "base64") }),
      ...(stringData && { stringData: maskData(stringData, "utf8") }),
      ...(type !== undefined && { type }),
    };
  }

  function unmaskText(text: string): string {
    return text.replaceAll(masksIn, (found) => (isOwn(found) ? (values.get(found)?.toString("utf8") ?? found) : found));
  }

  function unmaskBase64(text: string): string {
    const plain = Buffer.from(text, "base64");
    const whole = plain.toString("latin1");
    if (isOwn(whole)) return values.get(whole)?.toString("base64") ?? text;
    if (!isUtf8(plain) || !plain.includes("masked-")) return text;
    return Buffer.from(unmaskText(plain.toString("utf8"))).toString("base64");
  }

  const unmaskData = (data: Readonly<Record<string, unknown>>, unmaskOne: (text: string) => string) =>
    Object.fromEntries(
      Object.entries(data).map(([name, value]) => [name, typeof value === "string" ? unmaskOne(value) : value]),
    );

  return {
    answer(document) {
      const status = Status.safeParse(document).data;
      if (status) return maskStatus(status);
      const list = Secrets.safeParse(document).data;
      if (list) return { ...list, items: list.items?.map(maskSecret) ?? [] };
      const { success, data } = Secret.safeParse(document);
      if (!success || data.kind === undefined)
        throw new Refusal(502, "the API server answered with something else than a Secret");
      return maskSecret(data);
    },
    unmask(document) {
      const { success, data: secret } = Secret.safeParse(document);
      if (!success) return document;
      const { data, stringData } = secret;
      return {
        ...secret,
        ...(data && { data: unmaskData(data, unmaskBase64) }),
        ...(stringData && { stringData: unmaskData(stringData, unmaskText) }),
      };
    },
    values: () =>
      Array.from(values.values(), (value) => (isUtf8(value) ? value.toString("utf8") : value.toString("base64"))),
  };
}

/** In these words the API server names who may not do what, what is not there, and whose fields are in conflict. */
const harmless = new Set([401, 404, 409, 429]);
const byRoles = /^secrets (?:"[^"]*" )?is forbidden: User "[^"]*" cannot /;

/** What is wrong with a Secret is said in words that quote it: those of validation, and of webhooks. */
function maskStatus({ message = "", details, ...status }: z.output<typeof Status>): unknown {
  const { code = 0 } = status;
  const tells = status.status === "Success" || harmless.has(code) || (code === 403 && byRoles.test(message));
  const causes = details?.causes?.map(({ message: words, ...cause }) => ({
    ...cause,
    message: tells ? words : "(not shown, because it may quote the Secret)",
  }));
  const fieldsOf = causes?.flatMap(({ field }) => field ?? []) ?? [];
  const about = fieldsOf.length > 0 ? ` for its ${[...new Set(fieldsOf)].join(", ")}` : "";
  const unsaid = `the API server refused the Secret${about}; its words are not shown, because they may quote a value`;
  return {
    apiVersion: "v1",
    metadata: {},
    ...toStatus(code, tells ? message : unsaid),
    ...status,
    ...(details && { details: { ...details, ...(causes && { causes }) } }),
  };
}
