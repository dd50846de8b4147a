/** Checks each deployment for problems, and predicts what a swap would do. */
import { ApiError } from "../errors.ts";
import type { Limit } from "../kit/limit.ts";
import { type Deployment, isMalformed, keyText } from "../model.ts";
import type { Secrets } from "../ports.ts";
import type { ReadIdentity } from "../access/identity.ts";
import { parseRepoUrl } from "../model/repo-url.ts";
import type { DoctorCluster, ListedDeployment } from "./cluster.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";
import { secretNeeds } from "./secret-needs.ts";
import { type SwapComparison, judgeSwap } from "./swap.ts";

export interface ExaminationDeps {
  readonly cluster: Pick<DoctorCluster, "serviceAccountExists">;
  readonly secrets: Secrets;
  readonly readIdentity: ReadIdentity;
  /** Renders and compares, read-only; absent: hashes are not checked. */
  readonly compare?: ((deployment: Deployment) => Promise<SwapComparison>) | undefined;
  /** Limit of concurrent checks. */
  readonly limit: Limit;
  readonly now: () => number;
}

export async function examineDeployments(
  deps: ExaminationDeps,
  found: readonly ListedDeployment[],
  report: (done: string) => void,
): Promise<Finding[]> {
  if (found.length === 0) return [ok("none", "no KluctlDeployment in the watched namespaces")];
  let done = 0;
  const each = await Promise.all(
    found.map(async (one) => {
      const findings = await examineDeployment(deps, one);
      report(`${++done} of ${found.length}`);
      return findings;
    }),
  );
  return each.flat();
}

export async function examineDeployment(deps: ExaminationDeps, found: ListedDeployment): Promise<Finding[]> {
  const findings = await deps.limit.run(() => examineWhole(deps, found));
  return [...examineDeprecatedLogin(found.deployment), ...findings];
}

/** The deprecated credentials work, but for fewer hosts than with kluctl's controller. */
function examineDeprecatedLogin(deployment: ListedDeployment["deployment"]): Finding[] {
  if (isMalformed(deployment) || !deployment.spec.gitCredentials.some(({ bySource }) => bySource)) return [];
  const host = parseRepoUrl(deployment.spec.source.url)?.host;
  const where = host === undefined ? "for no host, because the source is not a git repository" : `for ${host} only`;
  const what = `spec.source.secretRef is deprecated; its password is used ${where}, not for includes from other hosts`;
  const advice = "list each host in spec.credentials.git";
  return [warning(keyText(deployment.key), what, advice)];
}

async function examineWhole(deps: ExaminationDeps, { deployment, spec }: ListedDeployment): Promise<Finding[]> {
  const subject = keyText(deployment.key);
  if (deployment.deletionTimestamp !== undefined) return [ok(subject, "is being deleted")];
  if (isMalformed(deployment)) {
    return deployment.problem.split("\n").map((line) => problem(subject, line));
  }
  const faults = [...(await examineSecrets(deps, deployment, spec)), ...(await examineIdentity(deps, deployment))];
  if (faults.length > 0) return faults;
  if (deployment.spec.suspend) return [ok(subject, "suspended: nothing is deployed")];
  if (deps.compare === undefined) return [ok(subject, "spec and Secrets are valid; not compared")];
  try {
    return [judgeSwap(deployment, await deps.compare(deployment), deps.now())];
  } catch (error) {
    const { message } = error as Error;
    return [
      deployment.status.lastPrepareError === undefined
        ? problem(subject, `would not become ready: ${message}`)
        : warning(subject, `cannot be prepared, as its status already reports: ${message}`),
    ];
  }
}

async function examineSecrets({ secrets }: ExaminationDeps, deployment: Deployment, spec: unknown): Promise<Finding[]> {
  const { key } = deployment;
  const account = isMalformed(deployment) ? undefined : deployment.spec.serviceAccountName;
  const subject = keyText(key);
  const findings = secretNeeds(spec).map(async ({ field, secretName, missing }) => {
    const name = `secret ${key.namespace}/${secretName}`;
    let data: Readonly<Record<string, string>> | undefined;
    try {
      data = await secrets.get(key.namespace, secretName, account);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 403)) throw error;
      const advice = "grant get on it to the account that reads it: see kubernetes.readSecretsAs";
      return [problem(subject, `${field}: ${name} cannot be read: ${error.message}`, advice)];
    }
    if (data === undefined) return [problem(subject, `${field}: ${name} does not exist`, "create it")];
    const what = missing(Object.keys(data));
    return what === undefined ? [] : [problem(subject, `${field}: ${name} ${what}`, "add the missing key")];
  });
  return (await Promise.all(findings)).flat();
}

/** The cluster and identity that kluctl would use. */
async function examineIdentity({ cluster, readIdentity }: ExaminationDeps, deployment: Deployment): Promise<Finding[]> {
  const { key, spec } = deployment;
  try {
    await readIdentity(deployment, { decrypts: false }); // its keys are checked with the other Secrets
  } catch (error) {
    return [problem(keyText(key), `spec.kubeConfig: ${(error as Error).message}`)];
  }
  const { serviceAccountName: name } = spec;
  // Accounts of another cluster are known to its own API server only.
  if (name === undefined || spec.kubeConfig !== undefined) return [];
  if (await cluster.serviceAccountExists({ namespace: key.namespace, name })) return [];
  const what = `spec.serviceAccountName: service account ${key.namespace}/${name} does not exist`;
  return [problem(keyText(key), what, "create it, and grant it permissions for the objects of the project")];
}
