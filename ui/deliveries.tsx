/** What git hosts have sent, and what became of it. */
import type { PageForge } from "../routes/page-facts.ts";
import type { DeliveryRecord } from "../src/delivery-record.ts";
import { useFact, useNow } from "./hooks.ts";
import { send } from "./api.ts";
import { Age, Again, Loading, Notice } from "./parts.tsx";
import { ageText, short } from "./words.ts";

/** After so long without one, somebody should have a look. */
const silentMs = 24 * 3_600_000;

export function DeliveriesView() {
  const { value, problem } = useFact<readonly PageForge[]>("deliveries", 5_000);
  const now = useNow();
  return (
    <>
      <h1>Deliveries</h1>
      {problem && <Notice kind="bad">{problem}</Notice>}
      {!value && !problem && <Loading />}
      {value?.length === 0 && <p>No forge is configured: there are no webhooks, git is only polled.</p>}
      {value?.map((forge) => (
        <Forge key={forge.id} forge={forge} now={now} />
      ))}
    </>
  );
}

function Forge({ forge, now }: { readonly forge: PageForge; readonly now: number }) {
  const { id, kind, lastGenuineAt, deliveries } = forge;
  const silent = lastGenuineAt === undefined || now - lastGenuineAt > silentMs;
  const newest = deliveries[0];
  return (
    <section>
      <h2>
        {id} {id !== kind && <span class="quiet">{kind}</span>}
      </h2>
      {silent && (
        <Notice kind="bad">
          <strong>
            {lastGenuineAt === undefined
              ? "No genuine delivery came within the last week."
              : `None came for ${ageText(now - lastGenuineAt)}.`}
          </strong>{" "}
          Git is polled meanwhile, so that nothing is lost, only later. If there were pushes since, look at:
          <ul>
            {newest?.refused !== undefined && (
              <li>the webhook's secret: what came last was refused, because {newest.refused}</li>
            )}
            <li>
              the webhook's page at the git host: it lists what it sent, and what was answered. Its address has to end
              in <code>/webhooks/{id}</code>
            </li>
            <li>whether the host reaches that address: an Ingress, a firewall, a certificate</li>
            <li>
              <code>towline webhook explain</code>, with a payload of the host: what would match, and why not the rest
            </li>
          </ul>
        </Notice>
      )}
      {!silent && (
        <p class="quiet">
          The last genuine one came <Age at={lastGenuineAt} now={now} />.
        </p>
      )}
      <ul class="plain deliveries">
        {deliveries.map((delivery, index) => (
          <Delivery key={`${delivery.at} ${delivery.delivery ?? index}`} delivery={delivery} now={now} />
        ))}
      </ul>
    </section>
  );
}

function Delivery({ delivery, now }: { readonly delivery: DeliveryRecord; readonly now: number }) {
  const { at, status, event, repoName, ref, pullRequest, commit, matched, queued, previews = 0 } = delivery;
  const { forge, refused, reason, deployments, ignored, ignoredMore, replayable } = delivery;
  const about = pullRequest === undefined ? `${repoName ?? ""} ${branchOf(ref)}` : `${repoName ?? ""}#${pullRequest}`;
  return (
    <li>
      <div>
        <span class={`badge ${status === 202 ? "ready" : "failed"}`}>{status}</span>{" "}
        <strong>{event === "pull-request" ? "pull request" : event === "none" ? "not read" : event}</strong>{" "}
        <span class="breaks">{about}</span>{" "}
        {commit && (
          <a href={`#/commit/${encodeURIComponent(commit)}`}>
            <code>{short(commit)}</code>
          </a>
        )}{" "}
        <span class="quiet">
          <Age at={at} now={now} />
        </span>
      </div>
      <div class="breaks">
        {refused ?? reason ?? (
          <>
            {matched} matched, {queued} queued
            {previews > 0 && `, ${previews} previews`}
            {deployments.length > 0 && `: ${deployments.join(", ")}${matched > deployments.length ? ", …" : ""}`}
          </>
        )}
      </div>
      {replayable && delivery.delivery !== undefined && (
        <Again label="Replay" of={`the delivery about ${about}`} run={() => replay(forge, delivery.delivery ?? "")} />
      )}
      {ignored.length > 0 && (
        <details>
          <summary>{ignored.length + ignoredMore} not concerned</summary>
          <ul>
            {ignored.map(({ deployment, reason: why }) => (
              <li key={deployment}>
                {deployment}: {why}
              </li>
            ))}
            {ignoredMore > 0 && <li>and {ignoredMore} more</li>}
          </ul>
        </details>
      )}
    </li>
  );
}

async function replay(forge: string, delivery: string): Promise<string> {
  const path = `deliveries/${encodeURIComponent(forge)}/${encodeURIComponent(delivery)}/replay`;
  const receipt = await send<Pick<DeliveryRecord, "matched" | "queued" | "reason">>(path);
  return receipt.reason ?? `${receipt.matched} matched, ${receipt.queued} queued.`;
}

function branchOf(ref: string | undefined): string {
  return ref?.replace(/^refs\/(heads|tags)\//, "") ?? "";
}
