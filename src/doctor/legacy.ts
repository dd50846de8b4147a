/** Checks deployments of the legacy API like the others, with findings that name the legacy API's fields. */
import type { KubeClient } from "../kube/client.ts";
import { toEntry } from "../apis/flux-kluctl/entry.ts";
import { createContextReader } from "../apis/flux-kluctl/read-context.ts";
import { parseResource } from "../apis/resource.ts";
import { translateSpec } from "../apis/flux-kluctl/translate-spec.ts";
import { keyText } from "../model.ts";
import type { Secrets } from "../ports.ts";
import { type ListedDeployment, lastWriterOf } from "./cluster.ts";
import { type ExaminationDeps, examineDeployment } from "./deployments.ts";
import { type Finding, ok } from "./finding.ts";

export interface LegacyReaderDeps {
  readonly client: Pick<KubeClient, "request">;
  readonly secrets: Secrets;
}

/** A deployment of the legacy API as the server would reconcile it; `spec` is the translated spec. */
export interface FoundLegacy extends ListedDeployment {
  /** Whether it follows a Flux GitRepository. */
  readonly viaFlux: boolean;
}

/** Parses the resources and reads the objects that they refer to. */
export async function readLegacy(deps: LegacyReaderDeps, items: readonly unknown[]): Promise<FoundLegacy[]> {
  const readContext = createContextReader(deps);
  const read = items.map(async (item) => {
    const resource = parseResource(item);
    if (resource === undefined) return [];
    const context = await readContext(resource);
    const deployment = toEntry(resource, context);
    if (deployment === undefined) return [];
    const { spec } = translateSpec(resource.spec, { namespace: deployment.key.namespace, ...context });
    return [{ deployment, spec, lastWriter: lastWriterOf(item), viaFlux: context.gitRepository !== undefined }];
  });
  return (await Promise.all(read)).flat();
}

export async function examineLegacy(
  deps: ExaminationDeps,
  found: readonly FoundLegacy[],
  newer: readonly ListedDeployment[],
): Promise<Finding[]> {
  if (found.length === 0) return [];
  const twins = new Set(newer.map(({ deployment }) => keyText(deployment.key)));
  const count = `${found.length} ${found.length === 1 ? "deployment" : "deployments"} of the legacy API`;
  const each = found.map(async (one) => {
    const subject = `${keyText(one.deployment.key)} (flux.kluctl.io)`;
    if (twins.has(keyText(one.deployment.key))) {
      return [ok(subject, "ignored: gitops.kluctl.io has a deployment of the same name")];
    }
    const findings = await examineDeployment(deps, one);
    return findings.map((finding) => ({ ...finding, subject, message: withLegacyFields(finding.message, one) }));
  });
  return [
    ok("flux.kluctl.io", `${count} served; \`towline migrate\` converts them`),
    ...(await Promise.all(each)).flat(),
  ];
}

function withLegacyFields(message: string, { viaFlux }: FoundLegacy): string {
  return message
    .replaceAll(
      "spec.credentials.git[0]",
      viaFlux ? "spec.sourceRef: the GitRepository's credentials" : "spec.source.secretRef",
    )
    .replaceAll("spec.credentials.helm[", "spec.helmCredentials[");
}
