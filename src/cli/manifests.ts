/** Reads KluctlDeployments, and GitRepositories of Flux, from files. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { parseFluxSource } from "../apis/flux/git-repository.ts";
import { annotation, type AnyDeployment, type FluxSource, followsGit, keyText } from "../model.ts";
import { assumeNoReads } from "../model/outside-reads.ts";
import { type FoundDeployment, toFound } from "./cluster.ts";

/** The `uid` of a resource whose manifest has none. */
const manifestUid = "manifest";

/** Every KluctlDeployment in the files and below the directories; other resources are ignored. */
export function readManifests(places: readonly string[]): readonly FoundDeployment[] {
  return readResources(places).flatMap((resource) =>
    toFound(asStored(resource, "KluctlDeployment", "gitops.kluctl.io/")),
  );
}

/**
 * As if they had been reconciled already: before that, any file may concern a deployment, which says nothing about its
 * paths.
 */
export function asReconciled(deployment: AnyDeployment): AnyDeployment {
  return followsGit(deployment) ? assumeNoReads(deployment, deployment.spec.source.path) : deployment;
}

/** Every GitRepository of Flux in the files and below the directories; other resources are ignored. */
export function readFluxManifests(places: readonly string[]): readonly FluxSource[] {
  return readResources(places).flatMap(
    (resource) => parseFluxSource(asStored(resource, "GitRepository", "source.toolkit.fluxcd.io/")) ?? [],
  );
}

function readResources(places: readonly string[]): readonly unknown[] {
  const files = places.flatMap((place) =>
    statSync(place).isDirectory()
      ? readdirSync(place, { recursive: true, encoding: "utf8" })
          .filter((name) => /\.ya?ml$/.test(name))
          .map((name) => join(place, name))
      : [place],
  );
  return files.flatMap((file) => {
    const documents = parseAllDocuments(readFileSync(file, "utf8"));
    return documents.map((document): unknown => {
      const [problem] = document.errors;
      if (problem) throw new Error(`cannot parse ${file}: ${problem.message}`);
      return document.toJS();
    });
  });
}

/** Adds the fields that the API server would set. `undefined` for other kinds. */
function asStored(document: unknown, wanted: string, group: `${string}/`): unknown {
  const { kind, apiVersion, metadata } = (document ?? {}) as Record<string, unknown>;
  if (kind !== wanted || !String(apiVersion).startsWith(group)) return undefined;
  return { ...(document as object), metadata: { namespace: "default", uid: manifestUid, ...(metadata as object) } };
}

/** Annotations that the server or its users write, which an applied manifest leaves in place. */
const keptAnnotations = [
  annotation.includes,
  annotation.includedCommits,
  annotation.reads,
  annotation.servedUrl,
  annotation.allowPreview,
];

/** The deployments, with those of the manifests in place of the ones of the same name. */
export function withManifests(
  deployments: readonly AnyDeployment[],
  manifests: readonly FoundDeployment[],
): readonly AnyDeployment[] {
  const all = new Map(deployments.map((deployment) => [keyText(deployment.key), deployment]));
  for (const { deployment } of manifests) {
    const name = keyText(deployment.key);
    const present = all.get(name);
    const kept = keptAnnotations.flatMap((key) => {
      const value = present?.annotations[key];
      return value === undefined ? [] : [[key, value] as const];
    });
    const uid = deployment.uid === manifestUid ? (present?.uid ?? manifestUid) : deployment.uid;
    all.set(
      name,
      asReconciled({ ...deployment, uid, annotations: { ...Object.fromEntries(kept), ...deployment.annotations } }),
    );
  }
  return [...all.values()];
}
