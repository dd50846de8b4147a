/** What a delivery affected, and searching deliveries. Pure. */
import type { DeliveryRecord } from "../src/model/delivery-record.ts";
import { hasWords, searchWords } from "./search-words.ts";

/** `includes`: the deployment does not follow the branch, but its project includes the repository. */
export interface Affected {
  readonly deployment: string;
  readonly includes: boolean;
}

/** The deployments of a push; of a pull request, only those that include its repository are recorded. */
export function affectedBy({ deployments, including = [] }: Pick<DeliveryRecord, "deployments" | "including">) {
  const names = [...new Set([...deployments, ...including])];
  return names.map((deployment): Affected => ({ deployment, includes: including.includes(deployment) }));
}

/** All words have to match. */
export function selectDeliveries(deliveries: readonly DeliveryRecord[], text: string): readonly DeliveryRecord[] {
  const words = searchWords(text);
  if (words.length === 0) return deliveries;
  return deliveries.filter((one) => {
    const { delivery, status, event, repoName, ref, commit, pullRequest, refused, reason, ignored } = one;
    const number = pullRequest === undefined ? "" : `#${pullRequest}`;
    const concerned = [...affectedBy(one), ...ignored].map(({ deployment }) => deployment);
    const said = [delivery, status, event, repoName, ref, commit, number, refused, reason, ...concerned];
    return hasWords(said.join(" "), words);
  });
}
