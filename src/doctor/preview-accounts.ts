/** Checks that each deployment has a service account for confined previews. */
import type { Config } from "../config.ts";
import { type Deployment, keyText } from "../model.ts";
import type { DoctorCluster } from "./cluster.ts";
import { type Finding, problem } from "./finding.ts";

const subject = "accounts of previews";

export async function examinePreviewAccounts(
  cluster: Pick<DoctorCluster, "serviceAccountExists">,
  { preview, defaultServiceAccount }: Pick<Config, "preview" | "defaultServiceAccount">,
  deployments: readonly Deployment[],
): Promise<Finding[]> {
  if (!preview.enabled || preview.isolation === "off") return [];
  // Accounts of another cluster are known to its own API server only.
  const here = deployments.filter(({ spec }) => spec.kubeConfig === undefined);
  const nameOf = ({ spec }: Deployment) =>
    preview.serviceAccountName ?? spec.serviceAccountName ?? defaultServiceAccount;

  const without = here.filter((deployment) => nameOf(deployment) === undefined).map(({ key }) => keyText(key));
  const accounts = here.flatMap((deployment) => {
    const name = nameOf(deployment);
    return name === undefined ? [] : { namespace: deployment.key.namespace, name };
  });
  const distinct = [...new Map(accounts.map((account) => [keyText(account), account])).values()];
  const exist = await Promise.all(distinct.map((account) => cluster.serviceAccountExists(account)));
  const missing = distinct.filter((_, at) => !exist[at]).map(keyText);
  return [
    ...(preview.isolation === "required" && without.length > 0
      ? [
          problem(
            subject,
            `${listed(without)}: no service account, so pull requests are not previewed`,
            "set preview.serviceAccountName or spec.serviceAccountName; see docs/preview-security.md",
          ),
        ]
      : []),
    ...(missing.length > 0
      ? [
          problem(
            subject,
            `service account ${listed(missing)} does not exist: pull requests are not previewed`,
            "create it, or set another preview.serviceAccountName; see docs/preview-security.md",
          ),
        ]
      : []),
  ];
}

function listed(names: readonly string[]): string {
  const more = names.length - 3;
  return `${names.slice(0, 3).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
