/**
 * Replaces the values of Secrets that a run sees. A mask is a hash of the value and its place, with a key that lives as
 * long as the run. Unchanged values have equal masks, so diffs are correct, and a mask does not reveal its value. A
 * project could have guesses masked too, and compare the masks. So the number of masks for a live value is limited, and
 * where there is no live value to compare with, masks are different in each response.
 */
import { createHmac, randomBytes } from "node:crypto";
import { isUtf8 } from "node:buffer";
import { z } from "zod";
import { longestFields, maskFields } from "./mask-fields.ts";
import { Refusal, toStatus } from "./refusal.ts";

export interface SecretMasks {
  /**
   * Masks the values in a response about Secrets, to a read or to an attempted write. Throws Refusal if it is not such
   * a response.
   */
  answer(document: unknown, to: "read" | "write"): unknown;
  /** Replaces the masks in a Secret that is written by the values they stand for: a project may have copied masks. */
  unmask(document: unknown): unknown;
  /** The values that were masked; they must not be shown elsewhere either. */
  values(): string[];
}

const mask = /^masked-([0-9a-f]{32})([0-9a-f]{12})$/;
const masksIn = /masked-[0-9a-f]{44}/g;
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration";
/** All values of a run together. They stay in memory until the run ends. */
const mostBytes = 16 * 2 ** 20;
const mostValues = 50_000;
/**
 * Values per place: the live one, the result of the merge, and changes that happen meanwhile. Every further one would
 * be a guess.
 */
const mostTries = 4;
/** Bytes that are parsed for fields, of all values of a run. */
const mostFields = 6 * longestFields;
/** Bytes that replace masks in one Secret. A few masks of a long value could otherwise exhaust the memory. */
const mostUnmasked = 6 * 2 ** 20;
/** Longer annotations contain whole objects, in any encoding. */
const longestAnnotation = 512;
/** With more values than this, all annotations are masked: searching them for the values would take seconds. */
const mostLookedFor = 500;
/** Shorter values occur in too many texts by chance. */
const leastLength = 6;

/** Namespace and name of a Secret, followed by the path of the masked value in it. */
type Place = readonly string[];

const fields = z.record(z.string(), z.unknown());
const Secret = z.looseObject({
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
  /** Mask of the whole value → what is shown instead of it. */
  const shown = new Map<string, string>();
  /** Place of a live value → number of values that have a mask there. */
  const tries = new Map<string, number>();
  /** The response that is being masked. */
  let to: { readonly what: "read" | "write"; readonly nonce: string } = { what: "read", nonce: "" };
  let bytes = 0;
  let fieldBytes = 0;

  const hash = (what: string, value: Buffer | string) =>
    createHmac("sha256", key).update(what).update(value).digest("hex");

  /** Verifies the second hash, which distinguishes this run's own masks from texts that only look like one. */
  function isOwn(text: string): boolean {
    const [, body, check] = mask.exec(text) ?? [];
    return body !== undefined && hash("check", body).slice(0, 12) === check;
  }

  function toMask(value: Buffer, at: Place): string {
    const text = value.toString("latin1");
    if (isOwn(text)) return text;
    const place = JSON.stringify(at);
    const isLive = to.what === "read" || tries.has(place);
    const body = hash(`value ${place}${isLive ? "" : to.nonce}`, value).slice(0, 32);
    const made = `masked-${body}${hash("check", body).slice(0, 12)}`;
    if (!values.has(made)) {
      bytes += value.length;
      if (bytes > mostBytes || values.size >= mostValues)
        throw new Refusal(413, `a preview cannot read more than ${mostBytes / 2 ** 20} MiB of Secrets, or ${mostValues} values`); // prettier-ignore
      const tried = (tries.get(place) ?? 0) + 1;
      if (isLive && tried > mostTries)
        throw new Refusal(403, `a preview cannot try more than ${mostTries} values for one key of a Secret`);
      if (isLive) tries.set(place, tried);
      values.set(made, value);
    }
    return made;
  }

  /**
   * The mask of the whole value precedes the masks of its fields, so that two texts are equal if and only if the values
   * are.
   */
  function toShown(value: Buffer, place: Place): string {
    const whole = toMask(value, place);
    let text = shown.get(whole);
    if (text === undefined) {
      const taken = value.length > longestFields ? 0 : value.length;
      const inFields =
        fieldBytes + taken > mostFields
          ? undefined
          : maskFields(value, (field, path) => toMask(Buffer.from(field), [...place, ...path]));
      fieldBytes += taken;
      text = inFields === undefined ? whole : `# ${whole}\n${inFields}`;
      shown.set(whole, text);
    }
    return text;
  }

  const toBytes = (value: unknown, encoding: "base64" | "utf8") =>
    typeof value === "string" ? Buffer.from(value, encoding) : Buffer.from(JSON.stringify(value) ?? "");

  function maskData(
    data: Readonly<Record<string, unknown>>,
    encoding: "base64" | "utf8",
    of: Place,
  ): Record<string, string> {
    const masked = Object.entries(data).map(([name, value]) => {
      const text = toShown(toBytes(value, encoding), [...of, "data", name]);
      return [name, encoding === "base64" ? Buffer.from(text).toString("base64") : text] as const;
    });
    return Object.fromEntries(masked);
  }

  /** Masks annotations in which tools store the whole object, or one of its values. */
  function maskAnnotations(
    texts: Readonly<Record<string, unknown>>,
    own: readonly string[],
    of: Place,
  ): Record<string, unknown> {
    const tells = (name: string, text: unknown) =>
      typeof text !== "string" ||
      name === lastApplied ||
      text.length > longestAnnotation ||
      own.length > mostLookedFor ||
      own.some((value) => text.includes(value));
    const masked = Object.entries(texts).map(([name, text]) => {
      return [name, tells(name, text) ? toMask(toBytes(text, "utf8"), [...of, "annotations", name]) : text] as const;
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
    const { annotations, namespace, name } = metadata;
    const of = [namespace ?? "", name ?? ""];
    return {
      ...(kind && { kind }),
      ...(apiVersion && { apiVersion }),
      metadata: {
        ...metadata,
        ...(annotations && { annotations: maskAnnotations(annotations, plain, of) }),
      },
      ...(immutable !== undefined && { immutable }),
      ...(data && { data: maskData(data, "base64", of) }),
      ...(stringData && { stringData: maskData(stringData, "utf8", of) }),
      ...(type !== undefined && { type }),
    };
  }

  function unmasker() {
    let left = mostUnmasked;
    /** Returns `undefined` for texts that are not masks of this run. */
    function find(text: string): Buffer | undefined {
      const value = isOwn(text) ? values.get(text) : undefined;
      left -= value?.length ?? 0;
      if (left < 0) throw new Refusal(413, "the values in this Secret are too large for a preview");
      return value;
    }
    const inText = (text: string): string =>
      text.replaceAll(masksIn, (found) => find(found)?.toString("utf8") ?? found);

    function inBase64(text: string): string {
      const plain = Buffer.from(text, "base64");
      const whole = find(plain.toString("latin1"));
      if (whole !== undefined) return whole.toString("base64");
      if (!isUtf8(plain) || !plain.includes("masked-")) return text;
      return Buffer.from(inText(plain.toString("utf8"))).toString("base64");
    }

    return { inText, inBase64 };
  }

  const unmaskData = (data: Readonly<Record<string, unknown>>, unmaskOne: (text: string) => string) =>
    Object.fromEntries(
      Object.entries(data).map(([name, value]) => [name, typeof value === "string" ? unmaskOne(value) : value]),
    );

  return {
    answer(document, what) {
      to = { what, nonce: randomBytes(16).toString("hex") };
      const status = Status.safeParse(document).data;
      if (status) return maskStatus(status);
      const list = Secrets.safeParse(document).data;
      if (list) return { ...list, items: list.items?.map(maskSecret) ?? [] };
      const { success, data } = Secret.safeParse(document);
      if (!success || data.kind === undefined) throw new Refusal(502, "the API server's response is not a Secret");
      return maskSecret(data);
    },
    unmask(document) {
      const { success, data: secret } = Secret.safeParse(document);
      if (!success) return document;
      const { data, stringData } = secret;
      const { inText, inBase64 } = unmasker();
      return {
        ...secret,
        ...(data && { data: unmaskData(data, inBase64) }),
        ...(stringData && { stringData: unmaskData(stringData, inText) }),
      };
    },
    values: () =>
      Array.from(values.values(), (value) => (isUtf8(value) ? value.toString("utf8") : value.toString("base64"))),
  };
}

/** Statuses whose messages only say who may not do what, what does not exist, or which fields are in conflict. */
const harmless = new Set([401, 404, 409, 429]);
const byRoles = /^secrets (?:"[^"]*" )?is forbidden: User "[^"]*" cannot /;

/** Removes messages that may quote the Secret: those of validation and of webhooks. */
function maskStatus({ message = "", details, ...status }: z.output<typeof Status>): unknown {
  const { code = 0 } = status;
  const tells = status.status === "Success" || harmless.has(code) || (code === 403 && byRoles.test(message));
  const causes = details?.causes?.map(({ message: words, ...cause }) => ({
    ...cause,
    message: tells ? words : "(not shown, because it may quote the Secret)",
  }));
  const fieldsOf = causes?.flatMap(({ field }) => field ?? []) ?? [];
  const about = fieldsOf.length > 0 ? ` for its ${[...new Set(fieldsOf)].join(", ")}` : "";
  const unsaid = `the API server rejected the Secret${about}; its message is not shown, because it may quote a value`;
  return {
    apiVersion: "v1",
    metadata: {},
    ...toStatus(code, tells ? message : unsaid),
    ...status,
    ...(details && { details: { ...details, ...(causes && { causes }) } }),
  };
}
