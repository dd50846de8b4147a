/** Rewrites a legacy KluctlDeployment for `gitops.kluctl.io/v1beta1`, with comments about what gets lost. Pure. */
import { type ApiResource, keyOf } from "../resource.ts";
import type { JsonObject } from "../../kit/json.ts";
import { stringify } from "yaml";
import { type Key, keyText } from "../../model.ts";
import { legacyAnnotation, legacyApiVersion } from "./resource.ts";
import { type MigrationNote, translateSpec, type TranslationContext, withAnnotations } from "./translate-spec.ts";

export interface Migration {
  readonly key: Key;
  /** The resource to create; `undefined` if problems prevent that. */
  readonly resource?: JsonObject | undefined;
  readonly problems: readonly string[];
  readonly notes: readonly MigrationNote[];
}

/** These mark the legacy resource as managed by another tool. That tool would take a copy for its own and remove it. */
const othersMarks =
  /^(?:kubectl\.kubernetes\.io\/last-applied-configuration|(?:kustomize|helm)\.toolkit\.fluxcd\.io\/.*|meta\.helm\.sh\/.*|argocd\.argoproj\.io\/.*|app\.kubernetes\.io\/managed-by)$/;

export function migrate(resource: ApiResource, context: Omit<TranslationContext, "namespace">): Migration {
  const key = keyOf(resource);
  const { metadata } = resource;
  const translation = translateSpec(resource.spec, { namespace: key.namespace, ...context });
  const { spec, problems, notes } = translation;
  if (problems.length > 0) return { key, problems, notes };
  const requests = Object.values<string>(legacyAnnotation);
  const kept = (texts: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(texts).filter(([name]) => !othersMarks.test(name) && !requests.includes(name)));
  const labels = kept(metadata.labels);
  const marks = withAnnotations(kept(metadata.annotations), translation);
  return {
    key,
    problems,
    notes,
    resource: {
      apiVersion: "gitops.kluctl.io/v1beta1",
      kind: "KluctlDeployment",
      metadata: {
        name: key.name,
        namespace: key.namespace,
        ...(Object.keys(labels).length > 0 && { labels }),
        ...(Object.keys(marks).length > 0 && { annotations: marks }),
      },
      spec,
    },
  };
}

/** Returns one line per remark that the user should know. */
export function remarksOf({ problems, notes }: Migration): string[] {
  return [
    ...problems.map((problem) => `problem: ${problem.replaceAll("\n", " ")}`),
    ...notes.map(({ kind, field, text }) => `${kind}: ${field}: ${text}`),
  ];
}

/** Returns documents for `kubectl apply`; a resource that cannot be migrated becomes a comment. */
export function toYaml(migrations: readonly Migration[]): string {
  return migrations.map(toDocument).join("");
}

function toDocument(migration: Migration): string {
  const { key, resource } = migration;
  const title = `${keyText(key)}, from ${legacyApiVersion}`;
  const what = resource === undefined ? `${title}, cannot be migrated` : title;
  const comments = [what, ...remarksOf(migration)].map((line) => `# ${line}\n`).join("");
  return `---\n${comments}${resource === undefined ? "" : stringify(resource)}`;
}
