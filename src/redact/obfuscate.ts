/**
 * Removes secret values from a result before it is stored, because stored results can be read by every user with access
 * to them.
 */
import { createHmac, randomBytes } from "node:crypto";
import { parseJson } from "../kit/json.ts";
import { type CommandResult, describeObject, type ResultObject } from "../model.ts";
import { type Redactor, redactorOf } from "./redactor.ts";
import { isSecret, isSecretSource, lastApplied } from "./secrets-of.ts";
import { mask } from "./shapes.ts";

type Document = Readonly<Record<string, unknown>>;

/** Characters of objects that are searched for secrets; of the objects after that only the names are stored. */
const maxSearchedLength = 16_000_000;

/** Metadata fields that kluctl's tools identify objects by. */
const identifying = new Set(["name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"]);

/**
 * Keeps the format of kluctl's results. The changes, errors and warnings are already masked. Values of Secrets and of
 * vars from secret stores are replaced by stars and a hash, which shows whether two values in this result are equal;
 * the hash's key is discarded, so that values cannot be guessed. If the secrets of a result cannot be found, only names
 * are kept.
 */
export function obfuscate(result: CommandResult, known: readonly string[]): CommandResult {
  const redactor = redactorOf(result, known);
  const key = randomBytes(32);
  const hide = (value: string | Buffer) => mask + createHmac("sha256", key).update(value).digest("hex").slice(0, 12);

  let searched = 0;
  const objects = result.objects.map((object) => {
    const texts = [object.rendered, object.remote, object.applied];
    searched += texts.reduce((sum, text) => sum + (text?.length ?? 0), 0);
    const change = (json: string) => (searched > maxSearchedLength ? namesIn(json) : hideIn(json, redactor, hide));
    return withTexts(object, isSecret(object.ref) ? (json) => hideSecret(json, redactor, hide) : change);
  });
  const { document } = result;
  const hidden = {
    ...document,
    ...(document["deployment"] !== undefined && { deployment: hideTree(document["deployment"], redactor, hide) }),
    ...fieldsOf(document, ["command", "target", "overridesPatch"], (value) => redactLeaves(value, redactor)),
    ...fieldsOf(document, ["seenImages"], (value) => hideImages(value, redactor)),
  };
  const whyIncomplete = redactor.whyIncomplete();
  if (whyIncomplete === undefined) return withDocument({ ...result, objects }, result, hidden);

  const message = `Only the names of objects are stored: ${whyIncomplete}.`;
  const bare = {
    ...result,
    objects: result.objects.map((object) => withTexts(object, namesIn)),
    warnings: [...result.warnings, { ref: { kind: "", name: "" }, message }],
  };
  const { command, target, overridesPatch: _, seenImages: __, ...rest } = document;
  const { command: name, initiator, startTime, endTime, dryRun } = record(command) ?? {};
  const { name: targetName, discriminator } = record(target) ?? {};
  return withDocument(bare, result, {
    ...rest,
    command: { command: name, initiator, startTime, endTime, ...(dryRun !== undefined && { dryRun }) },
    ...(target !== undefined && { target: { name: targetName, discriminator } }),
    deployment: {},
  });
}

/** Makes the document match the result. Texts that did not change stay compacted as kluctl wrote them. */
function withDocument(result: CommandResult, before: CommandResult, document: Document): CommandResult {
  const { errors, warnings } = result;
  const written = Array.isArray(document["compactedObjects"]) ? (document["compactedObjects"] as unknown[]) : [];
  const compactedObjects = result.objects.map((object, i) => {
    const { rendered, remote, applied } = object;
    const { rendered: wasRendered, remote: wasRemote, applied: wasApplied } = before.objects[i] ?? {};
    const isSame = rendered === wasRendered && remote === wasRemote && applied === wasApplied;
    const original = written.length === result.objects.length ? record(written[i]) : undefined;
    const texts = isSame && original ? fieldsOf(original, ["rendered", "remote", "applied"], same) : fullTexts(object);
    return { ...describeObject(object), ...texts };
  });
  return {
    ...result,
    document: {
      ...document,
      compactedObjects,
      ...(errors.length + lengthOf(document["errors"]) > 0 && { errors }),
      ...(warnings.length + lengthOf(document["warnings"]) > 0 && { warnings }),
    },
  };
}

function fullTexts({ rendered, remote, applied }: ResultObject): Document {
  const full = (text: string | undefined) => (text === undefined ? undefined : `full: ${text}`);
  return { rendered: full(rendered), remote: full(remote), applied: full(applied) };
}

function withTexts(object: ResultObject, change: (json: string) => string): ResultObject {
  const of = (json: string | undefined) => (json === undefined ? undefined : change(json));
  return { ...object, rendered: of(object.rendered), remote: of(object.remote), applied: of(object.applied) };
}

type Hide = (value: string | Buffer) => string;

function hideSecret(json: string, redactor: Redactor, hide: Hide): string {
  const secret = record(parseJson(json));
  if (secret === undefined) return namesIn(json);
  const { data, stringData, ...rest } = secret;
  const hideEach = (values: unknown, hideOne: (value: string) => unknown) =>
    Object.fromEntries(Object.entries(record(values) ?? {}).map(([name, value]) => [name, hideOne(textOf(value))]));
  const plain = hideRest(rest, redactor);
  return JSON.stringify({
    ...plain,
    ...(data !== undefined && {
      data: hideEach(data, (value) => Buffer.from(hide(Buffer.from(value, "base64"))).toString("base64")),
    }),
    ...(stringData !== undefined && { stringData: hideEach(stringData, hide) }),
  });
}

/** Values of Secrets may have been copied into other objects. */
function hideIn(json: string, redactor: Redactor, _hide: Hide): string {
  const object = record(parseJson(json));
  if (object === undefined) return namesIn(json);
  const hidden = JSON.stringify(hideRest(object, redactor));
  // The match spans JSON syntax, so it cannot be masked within a single value.
  if (redactor.text(hidden) !== hidden) return namesIn(json);
  return hidden === JSON.stringify(object) ? json : hidden;
}

function hideRest({ apiVersion, kind, metadata, ...rest }: Document, redactor: Redactor): Document {
  const hideMetadata = (fields: Document) =>
    Object.fromEntries(
      Object.entries(fields).map(([name, value]) => [
        name,
        identifying.has(name) ? value : redactLeaves(withoutLastApplied(value), redactor),
      ]),
    );
  const named = record(metadata);
  return {
    ...(apiVersion !== undefined && { apiVersion }),
    ...(kind !== undefined && { kind }),
    ...(named && { metadata: hideMetadata(named) }),
    ...(redactLeaves(rest, redactor) as Document),
  };
}

/** Masks the annotation, which contains an earlier version of the whole object. */
function withoutLastApplied(annotations: unknown): unknown {
  const texts = record(annotations);
  return texts && lastApplied in texts ? { ...texts, [lastApplied]: mask } : annotations;
}

/** Masks a result's `deployment`: its nesting, the vars it loaded and the objects it rendered. */
function hideTree(tree: unknown, redactor: Redactor, hide: Hide): unknown {
  if (Array.isArray(tree)) return tree.map((item) => hideTree(item, redactor, hide));
  const fields = record(tree);
  if (fields === undefined) return redactLeaves(tree, redactor);
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      if (name === "renderedObjects") return [name, value];
      if (name !== "vars" || !Array.isArray(value)) return [name, hideTree(value, redactor, hide)];
      return [name, value.map((source) => hideVars(record(source) ?? {}, redactor, hide))];
    }),
  );
}

function hideVars(source: Document, redactor: Redactor, hide: Hide): unknown {
  if (!isSecretSource(source)) return redactLeaves(source, redactor);
  const { renderedVars, ...rest } = source;
  const known = redactLeaves(rest, redactor) as Document;
  return { ...known, renderedSensitive: true, renderedVars: mapLeaves(renderedVars, (leaf) => hide(textOf(leaf))) };
}

/** Image names are templates' output and may contain secrets; the references to their objects are kept. */
function hideImages(images: unknown, redactor: Redactor): unknown {
  if (!Array.isArray(images)) return null;
  return images.map((image: unknown) => {
    const { object, ...rest } = record(image) ?? {};
    return { ...(redactLeaves(rest, redactor) as Document), ...(object !== undefined && { object }) };
  });
}

function redactLeaves(value: unknown, redactor: Redactor): unknown {
  return mapLeaves(value, (leaf) => {
    if (typeof leaf === "string") return redactor.text(redactor.leaf(leaf));
    const text = textOf(leaf);
    return redactor.text(redactor.leaf(text)) === text ? leaf : mask;
  });
}

/** Applies `change` to strings and numbers; keeps everything else. */
function mapLeaves(value: unknown, change: (leaf: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => mapLeaves(item, change));
  const fields = record(value);
  if (fields === undefined) return typeof value === "string" || typeof value === "number" ? change(value) : value;
  return Object.fromEntries(Object.entries(fields).map(([name, item]) => [name, mapLeaves(item, change)]));
}

/** Keeps only the object's identity. */
function namesIn(json: string): string {
  const { apiVersion, kind, metadata } = record(parseJson(json)) ?? {};
  const { name, namespace } = record(metadata) ?? {};
  return JSON.stringify({ apiVersion, kind, metadata: { name, namespace } });
}

function fieldsOf(from: Document, names: readonly string[], change: (value: unknown) => unknown): Document {
  return Object.fromEntries(names.flatMap((name) => (from[name] === undefined ? [] : [[name, change(from[name])]])));
}

function same(value: unknown): unknown {
  return value;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value ?? "");
}

function lengthOf(list: unknown): number {
  return Array.isArray(list) ? list.length : 0;
}

function record(value: unknown): Document | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Document) : undefined;
}
