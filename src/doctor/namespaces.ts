/** Checks the watched namespaces, and reports deployments in other namespaces. */
import type { DoctorCluster } from "./cluster.ts";
import { type Finding, ok, warning } from "./finding.ts";

const subject = "namespaces";

/** `namespaces`: as configured; empty: all. */
export async function examineNamespaces(
  cluster: Pick<DoctorCluster, "namespaceExists" | "deploymentNamespaces">,
  namespaces: readonly string[],
): Promise<Finding[]> {
  if (namespaces.length === 0) return [ok(subject, "all namespaces are watched")];
  const elsewhere = (await cluster.deploymentNamespaces())?.filter((name) => !namespaces.includes(name));
  const unseen = elsewhere?.length ? `; not watched, but with KluctlDeployments: ${elsewhere.join(", ")}` : "";
  const missing = await Promise.all(
    namespaces.map(async (name) =>
      (await cluster.namespaceExists(name))
        ? []
        : [
            warning(
              subject,
              `${name} is configured to be watched but does not exist`,
              "create it, or correct kubernetes.namespaces",
            ),
          ],
    ),
  );
  return [ok(subject, `watched: ${namespaces.join(", ")}${unseen}`), ...missing.flat()];
}
