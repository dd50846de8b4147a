/**
 * Replaces the values of Secrets that a run sees. A mask is a hash of the value and its place, with a key that lives as
 * long as the run. Unchanged values have equal masks, so diffs are correct, and a mask does not reveal its value.
 *
 * A project could write guesses, or texts that contain masks, and learn from the response. So only live values have
 * masks that stay the same. What a project wrote is compared with the live value of the same place and nothing else: it
 * is not parsed, not searched, and has a mask that occurs in no other response.
 */
import { createHmac, createSecretKey, randomBytes } from "node:crypto";
import { isUtf8 } from "node:buffer";
import { fieldsOf, isRecord, type JsonObject } from "../kit/json.ts";
import { createPauses } from "../kit/pauses.ts";
import {
  annotationAt,
  type Encoding,
  type Hiding,
  hideInSecrets,
  mapFields,
  type Place,
  type SecretDocument,
  toBytes,
  valueAt,
} from "./hide-in-secret.ts";
import type { Guesses } from "./guesses.ts";
import { longestFields, maskFields } from "./mask-fields.ts";
import { Refusal } from "./refusal.ts";
import { hideInStatus } from "./secret-status.ts";

export interface SecretMasks {
  /** Masks the response to a read. Rejects with a Refusal if it is not about Secrets. */
  read(document: unknown): Promise<unknown>;
  /** Prepares the body of an attempted write: a project may have copied masks. Rejects with a Refusal. */
  write(document: unknown, of: SecretName): Promise<SecretWrite>;
  /** The values that were masked; they must not be shown elsewhere either. */
  values(): string[];
}

export interface SecretName {
  readonly namespace: string;
  /** Empty if the Secret is created. */
  readonly name: string;
}

export interface SecretWrite {
  /** What to send to the API server. */
  readonly document: unknown;
  /** Masks the response. Rejects with a Refusal if it is not about a Secret. */
  answer(document: unknown): Promise<unknown>;
}

const mask = /^masked-([0-9a-f]{32})([0-9a-f]{12})$/;
const masksIn = /masked-[0-9a-f]{44}/g;
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration";
/** All values of a run together. They stay in memory until the run ends. */
const mostBytes = 16 * 2 ** 20;
const mostValues = 50_000;
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

export function createSecretMasks(guesses: Guesses): SecretMasks {
  const key = createSecretKey(randomBytes(32)); // made once: making it takes longer than a hash
  /** Mask → the live value that it stands for. */
  const live = new Map<string, Buffer>();
  /** Mask of a live value → what is shown instead of the value. */
  const shown = new Map<string, string>();
  /** What is shown instead of a live value → the value. */
  const wholes = new Map<string, Buffer>();
  /** Live annotations that are not masked, by a hash of text and place. */
  const clear = new Set<string>();
  /** Mask, which is never shown → value that is not a live one. */
  const written = new Map<string, Buffer>();
  let bytes = 0;
  let fieldBytes = 0;

  const hash = (what: string, value: Buffer | string) =>
    createHmac("sha256", key).update(what).update(value).digest("hex");

  /** Verifies the second hash, which distinguishes this run's own masks from texts that only look like one. */
  function isOwn(text: string): boolean {
    const [, body, check] = mask.exec(text) ?? [];
    return body !== undefined && hash("check", body).slice(0, 12) === check;
  }

  const sealed = (body: string) => `masked-${body}${hash("check", body).slice(0, 12)}`;

  function toMask(value: Buffer, at: Place): string {
    const text = value.toString("latin1");
    return isOwn(text) ? text : sealed(hash(`value ${JSON.stringify(at)}`, value).slice(0, 32));
  }

  function keep(values: Map<string, Buffer>, name: string, value: Buffer): void {
    if (values.has(name)) return;
    bytes += value.length;
    if (bytes > mostBytes || live.size + written.size >= mostValues)
      throw new Refusal(413, `a preview cannot read more than ${mostBytes / 2 ** 20} MiB of Secrets, or ${mostValues} values`); // prettier-ignore
    values.set(name, value);
  }

  function toLiveMask(value: Buffer, at: Place): string {
    const made = toMask(value, at);
    keep(live, made, value);
    return made;
  }

  /**
   * The mask of the whole value precedes the masks of its fields, so that two texts are equal if and only if the values
   * are.
   */
  function toShown(value: Buffer, at: Place): string {
    const whole = toLiveMask(value, at);
    let text = shown.get(whole);
    if (text === undefined) {
      const taken = value.length > longestFields ? 0 : value.length;
      const inFields =
        fieldBytes + taken > mostFields
          ? undefined
          : maskFields(value, (field, path) => toLiveMask(Buffer.from(field), [...at, ...path]));
      fieldBytes += taken;
      text = inFields === undefined ? whole : `# ${whole}\n${inFields}`;
      shown.set(whole, text);
      wholes.set(text.trim(), value);
    }
    return text;
  }

  const toClear = (text: string, at: Place) => hash(`clear ${JSON.stringify(at)}`, text);

  function hidingRead(secret: SecretDocument): Hiding {
    const plain = valuesOf(secret);
    return {
      hidesOwners: false,
      value: toShown,
      annotation(text, name, at) {
        const tells =
          typeof text !== "string" ||
          repeatsObject(name, text) ||
          plain.length > mostLookedFor ||
          plain.some((value) => text.includes(value));
        if (tells) return toLiveMask(toBytes(text, "utf8"), at);
        clear.add(toClear(text, at));
        return text;
      },
    };
  }

  /** `wrote`: the project's own annotations, by what was sent instead of them. */
  function hidingWritten(wrote: (name: string, sent: unknown) => unknown): Hiding {
    function toWrittenMask(value: Buffer, at: Place): string {
      const made = toMask(value, at);
      if (live.has(made)) return made;
      keep(written, made, value);
      return sealed(randomBytes(16).toString("hex"));
    }
    return {
      hidesOwners: true,
      value(value, at) {
        const made = toWrittenMask(value, at);
        return shown.get(made) ?? made;
      },
      annotation(text, name, at) {
        const value = toBytes(text, "utf8");
        if (typeof text !== "string" || live.has(toMask(value, at))) return toWrittenMask(value, at);
        const own = wrote(name, text);
        if (typeof own === "string" && !repeatsObject(name, own)) return own;
        return clear.has(toClear(text, at)) ? text : toWrittenMask(value, at);
      },
    };
  }

  function unmasker() {
    let left = mostUnmasked;
    function take(value: Buffer | undefined): Buffer | undefined {
      left -= value?.length ?? 0;
      if (left < 0) throw new Refusal(413, "the values in this Secret are too large for a preview");
      return value;
    }
    /** Returns `undefined` for texts that are not masks of live values. */
    const find = (text: string) => take(isOwn(text) ? live.get(text) : undefined);

    /**
     * Only a text that consists of one mask, and spaces around it, is replaced in any case. A text that contains masks
     * besides other characters is replaced only if it equals the live value then. Otherwise the project could learn
     * about a value from how the API server judges a text that is partly the project's own and partly secret, such as
     * whether it is valid JSON.
     */
    return function unmaskOne(text: string, at: Place): Buffer | undefined {
      if (!text.includes("masked-")) return undefined;
      const inner = text.trim();
      const whole = find(inner) ?? take(wholes.get(inner));
      if (whole !== undefined) {
        const from = text.indexOf(inner);
        const around = [text.slice(0, from), text.slice(from + inner.length)].map((spaces) => Buffer.from(spaces));
        return Buffer.concat([around[0]!, whole, around[1]!]);
      }
      const meant = Buffer.from(text.replaceAll(masksIn, (found) => find(found)?.toString("utf8") ?? found));
      return live.has(toMask(meant, at)) ? meant : undefined;
    };
  }

  /**
   * Too many different texts at a place are guesses. Other texts are sent instead, so that they always differ from what
   * is live. They are not refused, because a template may make a different value in each attempt of a preview.
   */
  async function toSend(document: JsonObject, { namespace, name }: SecretName) {
    const of = [namespace, name];
    const pause = createPauses();
    const unmaskOne = unmasker();
    const isCreated = name === "";
    const isGuess = (text: Buffer, at: Place) => !isCreated && !guesses.allow(text, at);
    const decoy = () => sealed(randomBytes(16).toString("hex"));

    const sendAll = (values: JsonObject, encoding: Encoding) =>
      mapFields(values, pause, (value, key) => {
        if (value === null) return null; // removes the key
        const [plain, at] = [toBytes(value, encoding), valueAt(of, key)];
        if (isGuess(plain, at)) return Buffer.from(decoy()).toString(encoding);
        // Masks are replaced only in values, because the answer masks all values.
        const text = isUtf8(plain) ? plain.toString("utf8") : "";
        return unmaskOne(text, at)?.toString(encoding) ?? value;
      });

    const { metadata, data, stringData } = document;
    const annotations = fieldsOf(fieldsOf(metadata)["annotations"]);
    const sent = await mapFields(annotations, pause, (text, key) =>
      text !== null && isGuess(toBytes(text, "utf8"), annotationAt(of, key)) ? decoy() : text,
    );
    return {
      document: {
        ...document,
        ...(isRecord(metadata) && {
          metadata: { ...metadata, ...(isRecord(metadata["annotations"]) && { annotations: sent }) },
        }),
        ...(isRecord(data) && { data: await sendAll(data, "base64") }),
        ...(isRecord(stringData) && { stringData: await sendAll(stringData, "utf8") }),
      },
      wrote: (key: string, text: unknown) => (sent[key] === text ? annotations[key] : undefined),
    };
  }

  async function hide(document: unknown, toHiding: (secret: SecretDocument) => Hiding): Promise<unknown> {
    const hidden = hideInStatus(document) ?? (await hideInSecrets(document, toHiding));
    if (hidden === undefined) throw new Refusal(502, "the API server's response is not a Secret");
    return hidden;
  }

  return {
    read: (document) => hide(document, hidingRead),
    async write(document, of) {
      // Anything else could be read differently by the API server.
      if (!isRecord(document)) throw new Refusal(400, "a preview can write Secrets as JSON only");
      const { document: sent, wrote } = await toSend(document, of);
      return { document: sent, answer: (response) => hide(response, () => hidingWritten(wrote)) };
    },
    values: () =>
      Array.from([...live.values(), ...written.values()], (value) =>
        isUtf8(value) ? value.toString("utf8") : value.toString("base64"),
      ),
  };
}

/** Whether a tool may have stored the whole object in this annotation. */
function repeatsObject(name: string, text: string): boolean {
  return name === lastApplied || text.length > longestAnnotation;
}

function valuesOf({ data, stringData }: SecretDocument): string[] {
  return [
    ...Object.values(data ?? {}).flatMap((value) => [String(value), toBytes(value, "base64").toString("utf8")]),
    ...Object.values(stringData ?? {}).map(String),
  ].filter((value) => value.length >= leastLength);
}
