/**
 * Translates the spec of `flux.kluctl.io/v1alpha1` to that of `gitops.kluctl.io/v1beta1`, and reports what gets lost.
 * Pure.
 */
import type { JsonObject } from "../../kit/json.ts";
import { z } from "zod";
import { annotation, type Key, keyText } from "../../model.ts";
import { withoutNulls } from "../kluctl/custom-resource.ts";
import type { FoundGitRepository } from "./git-repository.ts";

export interface Translation {
  readonly spec: JsonObject;
  /** To be added to the existing annotations. */
  readonly annotations: Readonly<Record<string, string>>;
  /** Why it cannot be deployed as it is; each problem names its field. */
  readonly problems: readonly string[];
  readonly notes: readonly MigrationNote[];
}

/** What a user who migrates to the current API should know. */
export interface MigrationNote {
  readonly field: string;
  /** `lost`: there is no equivalent. `changed`: expressed differently, and not quite the same. */
  readonly kind: "lost" | "changed";
  readonly text: string;
}

/** The objects that a spec references and that have to be read to translate it. */
export interface References {
  readonly gitRepository?: Key | undefined;
  readonly helmSecrets: readonly string[];
  readonly serviceAccount: string | undefined;
}

export interface TranslationContext {
  readonly namespace: string;
  readonly gitRepository?: FoundGitRepository;
  /**
   * By name; an absent name was not found. Without the map, credentials for Helm repositories only name their Secrets.
   */
  readonly helmSecrets?: ReadonlyMap<string, Readonly<Record<string, string>>> | undefined;
}

const text = z.string().optional();
const named = z.object({ name: z.string() });

const LegacySpec = z.looseObject({
  path: text,
  sourceRef: z.object({ kind: text, name: z.string(), namespace: text }).optional(),
  source: z
    .object({
      url: z.string(),
      ref: z.object({ branch: text, tag: text, commit: text }).optional(),
      path: text,
      secretRef: named.optional(),
    })
    .optional(),
  interval: z.unknown().optional(),
  deployInterval: text,
  validateInterval: text,
  deployOnChanges: z.boolean().optional(),
  context: text,
  renameContexts: z.array(z.object({ oldContext: z.string(), newContext: z.string() })).optional(),
  helmCredentials: z.array(z.object({ secretRef: named.optional() })).optional(),
  registrySecrets: z.array(z.unknown()).optional(),
  updateImages: z.boolean().optional(),
  images: z.array(z.record(z.string(), z.unknown())).optional(),
  dependsOn: z.array(z.object({ name: z.string(), namespace: text })).optional(),
  serviceAccountName: text,
});

type LegacySpec = z.output<typeof LegacySpec>;

/** JsonObject that are the same in both APIs. */
const same = [
  "interval",
  "retryInterval",
  "timeout",
  "suspend",
  "target",
  "targetNameOverride",
  "context",
  "args",
  "dryRun",
  "noWait",
  "forceApply",
  "replaceOnError",
  "forceReplaceOnError",
  "abortOnError",
  "includeTags",
  "excludeTags",
  "includeDeploymentDirs",
  "excludeDeploymentDirs",
  "deployMode",
  "validate",
  "prune",
  "delete",
  "serviceAccountName",
  "kubeConfig",
  "decryption",
] as const;

/** The current API cannot express "never". */
const tenYears = "87600h";

/** The only context that kluctl gets, from us and from the legacy controller. */
const onlyContext = "default";

/** `namespace`: of the resource. */
export function referencesOf(spec: JsonObject, namespace = ""): References {
  const { data } = LegacySpec.safeParse(withoutNulls(spec));
  const { source, sourceRef, helmCredentials = [] } = data ?? {};
  return {
    gitRepository:
      source || !sourceRef ? undefined : { namespace: sourceRef.namespace || namespace, name: sourceRef.name },
    helmSecrets: helmCredentials.flatMap(({ secretRef }) => secretRef?.name ?? []),
    serviceAccount: data?.serviceAccountName || undefined,
  };
}

export function translateSpec(raw: JsonObject, context: TranslationContext): Translation {
  const given = withoutNulls(raw) as JsonObject;
  const parsed = LegacySpec.safeParse(given);
  if (parsed.data === undefined) {
    const problems = parsed.error.issues.map(({ path, message }) => `${["spec", ...path].join(".")}: ${message}`);
    return { spec: {}, annotations: {}, problems, notes: [] };
  }
  const spec = parsed.data;
  const said = { problems: [] as string[], notes: [] as MigrationNote[] };
  const { source, login } = toSource(spec, context, said);
  const { helm, helmCredentials } = toHelmCredentials(spec, context, said);
  const credentials = { ...(login && { git: [login] }), ...(helm && { helm }) };
  const translated: JsonObject = {
    ...(source && { source: { git: source } }),
    ...Object.fromEntries(same.flatMap((field) => (given[field] === undefined ? [] : [[field, given[field]]]))),
    ...toIntervals(spec, said),
    ...toContext(spec, said),
    ...toImages(spec, said),
    ...(Object.keys(credentials).length > 0 && { credentials }),
    ...(helmCredentials && { helmCredentials }),
  };
  tellLost(spec, given, said);
  return { spec: translated, annotations: toAnnotations(spec, context.namespace), ...said };
}

interface Said {
  readonly problems: string[];
  readonly notes: MigrationNote[];
}

interface Login {
  readonly host: string;
  readonly secretRef: { readonly name: string };
}

function toSource(
  { source, sourceRef, path }: LegacySpec,
  { namespace, gitRepository }: TranslationContext,
  said: Said,
): { source?: JsonObject; login?: Login | undefined } {
  if (source !== undefined) {
    const { url, ref, path: directory, secretRef } = source;
    if (sourceRef !== undefined) said.problems.push("spec: has both source and sourceRef; remove one of them");
    if (path) said.problems.push("spec.path: belongs to spec.sourceRef; with spec.source, write spec.source.path");
    return {
      source: { url, ...(ref && { ref }), ...(directory && { path: directory }) },
      login: secretRef && toLogin(url, secretRef.name, "spec.source.secretRef", said),
    };
  }
  if (sourceRef === undefined) {
    said.problems.push("spec.source: has no url; set spec.source.url, or spec.sourceRef");
    return {};
  }
  const name = keyText({ namespace: sourceRef.namespace || namespace, name: sourceRef.name });
  if (sourceRef.kind !== "GitRepository") {
    const kind = JSON.stringify(sourceRef.kind ?? "");
    said.problems.push(`spec.sourceRef.kind: ${kind} is not supported; only GitRepository is`);
    return {};
  }
  if (gitRepository === "not-served") {
    const what = `references GitRepository ${name}, but this cluster has no GitRepositories`;
    said.problems.push(`spec.sourceRef: ${what}; install Flux's definition of them, or use spec.source`);
    return {};
  }
  if (gitRepository === "forbidden") {
    const grant = "grant it get, list and watch on gitrepositories of source.toolkit.fluxcd.io";
    said.problems.push(`spec.sourceRef: the server is not allowed to read GitRepository ${name}; ${grant}`);
    return {};
  }
  if (gitRepository === "unread") {
    said.problems.push(`spec.sourceRef: GitRepository ${name} cannot be read yet; the server's log says why`);
    return {};
  }
  if (gitRepository === undefined) {
    said.problems.push(`spec.sourceRef: GitRepository ${name} does not exist`);
    return {};
  }
  if (gitRepository.problem !== undefined) said.problems.push(`spec.sourceRef: ${gitRepository.problem}`);
  const { url, ref, secretName, verifies } = gitRepository;
  said.notes.push({
    field: "spec.sourceRef",
    kind: "changed",
    text: `the URL and ref of GitRepository ${name} were copied into this KluctlDeployment: later changes to the GitRepository have no effect on it`,
  });
  if (verifies) {
    const why = `GitRepository ${name} has spec.verify, and only Flux's own artifacts are verified`;
    said.notes.push({ field: "spec.sourceRef", kind: "lost", text: why });
  }
  const given = { ...(ref.branch && { branch: ref.branch }), ...(ref.tag && { tag: ref.tag }) };
  return {
    source: { url, ...(Object.keys(given).length > 0 && { ref: given }), ...(path && { path }) },
    login: secretName === undefined ? undefined : toLogin(url, secretName, "spec.sourceRef", said),
  };
}

/**
 * The login used to apply to any host. Now that is possible only for ssh: a password would be sent to any server that
 * requests one.
 */
function toLogin(url: string, secretName: string, field: string, said: Said): Login {
  const host = URL.canParse(url) && /^https?:/i.test(url) ? new URL(url).host : "*";
  if (host !== "*") {
    const where = `the login in Secret ${secretName} is used for ${host} only, no longer for git includes of other hosts`;
    said.notes.push({ field, kind: "changed", text: where });
  }
  return { host, secretRef: { name: secretName } };
}

function toIntervals({ interval, deployInterval, validateInterval }: LegacySpec, said: Said): JsonObject {
  if (deployInterval === undefined) {
    said.notes.push({
      field: "spec.deployInterval",
      kind: "changed",
      text: "was not set, and therefore equal to the interval: every check deployed. The new resource sets it to the interval; remove it there to deploy only changes",
    });
  }
  if (validateInterval === "never") {
    const instead = `"never" is no longer supported: replaced by ${tenYears} (ten years)`;
    said.notes.push({ field: "spec.validateInterval", kind: "changed", text: instead });
  }
  return {
    ...(deployInterval !== "never" && { deployInterval: deployInterval ?? interval }),
    ...(validateInterval !== undefined && {
      validateInterval: validateInterval === "never" ? tenYears : validateInterval,
    }),
  };
}

/**
 * The legacy controller renamed the only context to what the project's target names. Now the target is configured to
 * use the only context instead.
 */
function toContext({ context, renameContexts = [] }: LegacySpec, said: Said): JsonObject {
  if (renameContexts.length === 0) return {};
  const unknown = renameContexts.find(({ oldContext }) => oldContext !== onlyContext);
  if (unknown !== undefined) {
    const name = JSON.stringify(unknown.oldContext);
    said.problems.push(
      `spec.renameContexts: there is no context ${name} to rename; the only context is ${onlyContext}`,
    );
  }
  const text = `became spec.context: ${onlyContext}; only templates that use target.context see a difference`;
  said.notes.push({ field: "spec.renameContexts", kind: "changed", text });
  const renamed = context === undefined || renameContexts.some(({ newContext }) => newContext === context);
  return renamed ? { context: onlyContext } : {};
}

function toImages({ images }: LegacySpec, said: Said): JsonObject {
  if (images === undefined) return {};
  const gone = ["registryImage", "versionFilter"];
  if (images.some((image) => gone.some((field) => image[field] !== undefined))) {
    const text = "registryImage and versionFilter are removed: kluctl no longer queries registries";
    said.notes.push({ field: "spec.images", kind: "lost", text });
  }
  const kept = images.map((image) =>
    Object.fromEntries(Object.entries(image).filter(([name]) => !gone.includes(name))),
  );
  return { images: kept };
}

/** Unless the Secrets have been read, this uses the form that takes the repository's address from the Secret. */
function toHelmCredentials(
  { helmCredentials = [] }: LegacySpec,
  { helmSecrets, namespace }: TranslationContext,
  said: Said,
): { helm?: JsonObject[]; helmCredentials?: JsonObject[] } {
  const logins = helmCredentials.flatMap(({ secretRef }, i) => {
    const field = `spec.helmCredentials.${i}`;
    if (secretRef === undefined) {
      said.problems.push(`${field}: references no Secret; set secretRef.name`);
      return [];
    }
    const named = { secretRef: { name: secretRef.name } };
    if (helmSecrets === undefined) return [named];
    const data = helmSecrets.get(secretRef.name);
    const url = data?.["url"]?.trim() ?? "";
    if (data === undefined || !URL.canParse(url)) {
      const secret = `secret ${namespace}/${secretRef.name}`;
      const byId = data?.["credentialsId"] ? ", and a credentialsId is not enough" : "";
      const what = data === undefined ? `${secret} does not exist` : `${secret} has no valid url${byId}`;
      said.problems.push(`${field}: ${what}; it must contain the Helm repository's url`);
      return [];
    }
    const { host, pathname } = new URL(url);
    const path = pathname.replace(/^\/+|(?<!\/)\/+$/g, "");
    return [{ host, ...(path && { path }), ...named }];
  });
  if (logins.length === 0) return {};
  return helmSecrets === undefined ? { helmCredentials: logins } : { helm: logins };
}

/** The annotation may exist already: both values apply. */
export function withAnnotations(
  given: Readonly<Record<string, string>>,
  { annotations }: Pick<Translation, "annotations">,
): Record<string, string> {
  const names = [given[annotation.dependsOn], annotations[annotation.dependsOn]].filter(Boolean).join(", ");
  return { ...given, ...annotations, ...(names !== "" && { [annotation.dependsOn]: names }) };
}

function toAnnotations({ dependsOn = [] }: LegacySpec, own: string): Readonly<Record<string, string>> {
  if (dependsOn.length === 0) return {};
  const names = dependsOn.map(({ namespace, name }) => keyText({ namespace: namespace || own, name }));
  return { [annotation.dependsOn]: names.join(", ") };
}

function tellLost(spec: LegacySpec, given: JsonObject, { notes }: Said): void {
  if (spec.deployOnChanges === false) {
    const text =
      "changes in git are always deployed now; the closest setting is manual: true, which requires approval of each change";
    notes.push({ field: "spec.deployOnChanges", kind: "lost", text });
  }
  if (spec.dependsOn?.length) {
    notes.push({ field: "spec.dependsOn", kind: "changed", text: `became annotation ${annotation.dependsOn}` });
  }
  const lost = "kluctl no longer queries registries for newer images";
  if (spec.updateImages) notes.push({ field: "spec.updateImages", kind: "lost", text: lost });
  if (spec.registrySecrets?.length) notes.push({ field: "spec.registrySecrets", kind: "lost", text: lost });
  const known = new Set<string>([...same, ...Object.keys(LegacySpec.shape)]);
  for (const field of Object.keys(given).filter((name) => !known.has(name))) {
    notes.push({ field: `spec.${field}`, kind: "lost", text: "is not a known field" });
  }
}
