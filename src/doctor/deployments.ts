/** Each deployment: what of it would not work, and what a swap would do to it. */
import { ApiError } from "../errors.ts";
import type { Limit } from "../limit.ts";
import { type Deployment, isMalformed, keyText } from "../model.ts";
import type { Secrets } from "../ports.ts";
import type { ReadIdentity } from "../reconcile/identity.ts";
import { parseRepoUrl } from "../repo-url.ts";
import type { DoctorCluster, FoundDeployment } from "./cluster.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";
import { secretNeeds } from "./secret-needs.ts";
import { type Compared, judgeSwap } from "./swap.ts";

export interface DeploymentsDeps {
  readonly cluster: Pick<DoctorCluster, "serviceAccountExists">;
  readonly secrets: Secrets;
  readonly readIdentity: ReadIdentity;
  /** Renders and compares, and changes nothing; without it, hashes are not looked at. */
  readonly compare?: ((deployment: Deployment) => Promise<Compared>) | undefined;
  /** How many are looked at, and compared, at the same time. */
  readonly limit: Limit;
  readonly now: () => number;
}

export async function examineDeployments(
  deps: DeploymentsDeps,
  found: readonly FoundDeployment[],
  tell: (done: string) => void,
): Promise<Finding[]> {
  if (found.length === 0) return [ok("none", "there is no KluctlDeployment in the watched namespaces")];
  let done = 0;
  const each = await Promise.all(
    found.map(async (one) => {
      const findings = await examineDeployment(deps, one);
      tell(`${++done} of ${found.length}`);
      return findings;
    }),
  );
  return each.flat();
}

export async function examineDeployment(deps: DeploymentsDeps, found: FoundDeployment): Promise<Finding[]> {
  const findings = await deps.limit.run(() => examineWhole(deps, found));
  return [...examineOldLogin(found.deployment), ...findings];
}

/** Works, but not for all that it works for under kluctl's controller. */
function examineOldLogin(deployment: FoundDeployment["deployment"]): Finding[] {
  if (isMalformed(deployment) || !deployment.spec.gitCredentials.some(({ bySource }) => bySource)) return [];
  const host = parseRepoUrl(deployment.spec.source.url)?.host;
  const where = host === undefined ? "for no host, as the source is none of git" : `for ${host} only`;
  const what = `spec.source.secretRef is deprecated, and its password is used ${where}: not for what the project includes`;
  const advice = "name each host in spec.credentials.git";
  return [warning(keyText(deployment.key), `${what} from other hosts`, advice)];
}

async function examineWhole(deps: DeploymentsDeps, { deployment, spec }: FoundDeployment): Promise<Finding[]> {
  const subject = keyText(deployment.key);
  if (deployment.deletionTimestamp !== undefined) return [ok(subject, "is being deleted")];
  if (isMalformed(deployment)) {
    return deployment.problem.split("\n").map((line) => problem(subject, line));
  }
  const faults = [...(await examineSecrets(deps, deployment, spec)), ...(await examineIdentity(deps, deployment))];
  if (faults.length > 0) return faults;
  if (deployment.spec.suspend) return [ok(subject, "is suspended: nothing is deployed")];
  if (deps.compare === undefined) return [ok(subject, "its spec and secrets are sound; not compared")];
  try {
    return [judgeSwap(deployment, await deps.compare(deployment), deps.now())];
  } catch (error) {
    const { message } = error as Error;
    return [
      deployment.status.lastPrepareError === undefined
        ? problem(subject, `would not become ready: ${message}`)
        : warning(subject, `cannot be prepared, which its status tells already: ${message}`),
    ];
  }
}

async function examineSecrets({ secrets }: DeploymentsDeps, deployment: Deployment, spec: unknown): Promise<Finding[]> {
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
      const advice = "grant get on it to who reads it: see kubernetes.readSecretsAs";
      return [problem(subject, `${field}: ${name} may not be read: ${error.message}`, advice)];
    }
    if (data === undefined) return [problem(subject, `${field}: ${name} does not exist`, "create it")];
    const what = missing(Object.keys(data));
    return what === undefined ? [] : [problem(subject, `${field}: ${name} ${what}`, "add what is missing")];
  });
  return (await Promise.all(findings)).flat();
}

/** Whom kluctl would be on the cluster, and on which one. */
async function examineIdentity({ cluster, readIdentity }: DeploymentsDeps, deployment: Deployment): Promise<Finding[]> {
  const { key, spec } = deployment;
  try {
    await readIdentity(deployment, { decrypts: false }); // its keys are looked at with the other Secrets
  } catch (error) {
    return [problem(keyText(key), `spec.kubeConfig: ${(error as Error).message}`)];
  }
  const { serviceAccountName: name } = spec;
  // Of another cluster, only its own API server knows the accounts.
  if (name === undefined || spec.kubeConfig !== undefined) return [];
  if (await cluster.serviceAccountExists({ namespace: key.namespace, name })) return [];
  const what = `spec.serviceAccountName: there is no service account ${key.namespace}/${name}`;
  return [problem(keyText(key), what, "create it, and grant it what the project deploys")];
}
