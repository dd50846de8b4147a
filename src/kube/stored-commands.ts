/** What kluctl's commands did, from the summaries of their stored results: the results themselves are not read. */
import { z } from "zod";
import { parseJson } from "../kit/json.ts";
import type { StoredCommand } from "../model.ts";
import type { KubeClient } from "./client.ts";

const count = z.number().catch(0);
const Summary = z.object({
  kluctlDeployment: z.object({ namespace: z.string(), name: z.string() }),
  commandInfo: z.object({
    command: z.string(),
    startTime: z.string(),
    endTime: z.string(),
    dryRun: z.boolean().optional().catch(undefined),
  }),
  gitInfo: z.object({ commit: z.string() }),
  errors: z.union([z.array(z.unknown()).transform((list) => list.length), z.number()]).catch(0),
  newObjects: count,
  changedObjects: count,
  deletedObjects: count,
});

export const annotation = "kluctl.io/command-result-summary";
export const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

export const Item = z.object({ metadata: z.object({ annotations: z.object({ [annotation]: z.string() }) }) });

export async function listStoredCommands(
  client: Pick<KubeClient, "list">,
  namespace: string,
): Promise<readonly StoredCommand[]> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets`;
  const query = { labelSelector: "kluctl.io/result=true,kluctl.io/command-result-id" };
  const { items } = await client.list(path, { query, accept: metadataOnly });
  return items.flatMap((item) => {
    const text = Item.safeParse(item).data?.metadata.annotations[annotation];
    return text === undefined ? [] : (parseSummary(text) ?? []);
  });
}

/** Returns `undefined` for what other programs stored there. */
export function parseSummary(text: string): StoredCommand | undefined {
  const { data } = Summary.safeParse(parseJson(text));
  if (data === undefined) return undefined;
  const { kluctlDeployment, commandInfo, gitInfo, errors, newObjects, changedObjects, deletedObjects } = data;
  const counts = [
    [newObjects, "new"],
    [changedObjects, "changed"],
    [deletedObjects, "deleted"],
  ] as const;
  return {
    deployment: `${kluctlDeployment.namespace}/${kluctlDeployment.name}`,
    command: commandInfo.command,
    commit: gitInfo.commit,
    startedAt: Date.parse(commandInfo.startTime),
    endedAt: Date.parse(commandInfo.endTime),
    errors,
    changes: counts
      .filter(([many]) => many > 0)
      .map(([many, what]) => `${many} ${what}`)
      .join(", "),
    dryRun: commandInfo.dryRun,
  };
}
