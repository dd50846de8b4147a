/** The users of an episode. */
import type { KubeClient } from "../../src/kube/client.ts";
import type { Ledger } from "./ledger.ts";
import type { DeploymentPlan } from "./projects.ts";
import { stampOfPerson } from "./stamps.ts";
import { episodeMs, waitFor } from "./wait-for.ts";

/** What users do: they talk to the API server directly. */
export interface People {
  create(deployment: DeploymentPlan): Promise<void>;
  remove(deployment: DeploymentPlan): Promise<void>;
  patch(deployment: DeploymentPlan, patch: object): Promise<void>;
  /** Changes the content of one of its objects. */
  touch(deployment: DeploymentPlan, object: string): Promise<void>;
  /** Deletes one of its objects. */
  destroy(deployment: DeploymentPlan, object: string): Promise<void>;
}

export interface PeopleDeps {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly ledger: Pick<Ledger, "liveStatuses">;
}

export function createPeople({ client, namespace, ledger }: PeopleDeps): People {
  const resource = ({ name }: { name: string }) =>
    `/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments/${name}`;
  const object = ({ name }: DeploymentPlan, one: string) => `/api/v1/namespaces/${namespace}/configmaps/${name}-${one}`;
  const ignoreMissing = (error: { status?: number }) => {
    if (error.status !== 404) throw error as Error;
  };
  let touches = 0;
  /** Returns the version it wrote; `undefined` if there is no such object. */
  const write = async (deployment: DeploymentPlan, one: string): Promise<string | undefined> => {
    const metadata = { annotations: stampOfPerson(++touches) };
    const body = { metadata, data: { color: `of a person, ${Date.now()}` } };
    const path = object(deployment, one);
    const written = await client.request({ method: "PATCH", path, body }).catch(ignoreMissing);
    return (written as { metadata: { resourceVersion: string } } | undefined)?.metadata.resourceVersion;
  };
  return {
    touch: async (deployment, one) => void (await write(deployment, one)),
    async create({ name, spec, annotations }) {
      const body = {
        apiVersion: "gitops.kluctl.io/v1beta1",
        kind: "KluctlDeployment",
        metadata: { name, namespace, annotations },
        spec,
      };
      const path = resource({ name }).replace(/\/[^/]+$/, "");
      const create = () =>
        client.request({ method: "POST", path, body, totalMs: 0 }).then(
          () => true,
          (error: { status?: number }) => {
            if (error.status !== 409) throw error as Error;
            return ledger.liveStatuses().get(name)?.deleting !== true;
          },
        );
      // A deployment that is still being deleted causes a conflict: wait for its end, which may have to wait for that of
      // the faults.
      await waitFor(`${name} to be created`, create, episodeMs);
    },
    async remove(deployment) {
      await client.request({ method: "DELETE", path: resource(deployment) }).catch(ignoreMissing);
    },
    async patch(deployment, body) {
      await client.request({ method: "PATCH", path: resource(deployment), body }).catch(ignoreMissing);
    },
    async destroy(deployment, one) {
      const resourceVersion = await write(deployment, one);
      if (resourceVersion === undefined) return;
      // If a run has written it meanwhile, the deletion would be taken for that run's.
      const body = { apiVersion: "v1", kind: "DeleteOptions", preconditions: { resourceVersion } };
      await client
        .request({ method: "DELETE", path: object(deployment, one), body })
        .catch((error: { status?: number }) => error.status === 409 || ignoreMissing(error));
    },
  };
}
