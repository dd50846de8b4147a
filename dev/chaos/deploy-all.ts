/** The beginning of an episode. */
import type { Stage } from "./stage.ts";
import { waitFor } from "./wait-for.ts";

/** Creates all deployments and waits until they have settled. */
export async function deployAll({ plan, people, ledger, countDescriptors }: Stage): Promise<void> {
  // Deployments that share a discriminator are created later, so that it is certain which of them was first.
  const later = plan.deployments.filter(
    ({ group }, i) => plan.deployments.findIndex((one) => one.group === group) < i && group,
  );
  const first = plan.deployments.filter((one) => !later.includes(one));
  for (const deployments of [first, later]) {
    await Promise.all(deployments.map((one) => people.create(one)));
    await waitFor("the first deploys", () =>
      deployments.every(({ name }) => {
        const status = ledger.liveStatuses().get(name);
        return status?.status.ready !== undefined && !status.status.reconciling && status.status.observedCommit;
      }),
    );
  }
  countDescriptors();
}
