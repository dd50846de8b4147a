/** The deliveries of git hosts and their outcome. */
import { useEffect, useState } from "preact/hooks";
import type { PageForge } from "../src/web/facts.ts";
import type { DeliveryRecord } from "../src/model/delivery-record.ts";
import { keepPicked, readPicked, useFact, useNow } from "./hooks.ts";
import { send } from "./api.ts";
import { Age, Again, Loading, Notice } from "./parts.tsx";
import { SearchField } from "./search-field.tsx";
import { affectedBy, selectDeliveries } from "./select-deliveries.ts";
import { silenceOf } from "./silence.ts";
import { addressOf, ageText, refText, short } from "./words.ts";

export function DeliveriesView() {
  const { value, problem } = useFact<readonly PageForge[]>("deliveries", 5_000);
  const now = useNow();
  const [text, setText] = useState(() => readPicked().get("search") ?? "");
  useEffect(() => keepPicked({ search: text }), [text]);
  return (
    <>
      <h1>Deliveries</h1>
      <div class="tools">
        <SearchField
          label="Search deliveries"
          hint="Repository, branch, commit, response"
          text={text}
          onText={setText}
        />
      </div>
      {problem && <Notice kind="bad">{problem}</Notice>}
      {!value && !problem && <Loading />}
      {value?.length === 0 && (
        <p>No git host is configured, so there are no webhooks: changes are found by polling git.</p>
      )}
      {value?.map((forge) => (
        <Forge key={forge.id} forge={forge} text={text} now={now} />
      ))}
    </>
  );
}

function Missed({ missed, now }: { readonly missed: NonNullable<PageForge["missed"]>; readonly now: number }) {
  return (
    <Notice kind="bad">
      <strong>Webhooks are missing.</strong> The sweep found pushes that no webhook had reported, so they were deployed
      late:
      <ul>
        {missed.map(({ repo, count, since, commit, reason }) => (
          <li key={repo} class="breaks">
            {repo}: {count} {count === 1 ? "push" : "pushes"} since <Age at={since} now={now} />, the last one{" "}
            <code>{short(commit)}</code>
            {reason && (
              <div>
                Reason: {reason.why}. What to do: {reason.advice}.
              </div>
            )}
          </li>
        ))}
      </ul>
      {missed.some(({ reason }) => reason === undefined) && (
        <>
          <code>towline webhook ensure</code> creates and repairs webhooks. If they exist, the git host lists their
          deliveries and our responses.
        </>
      )}
    </Notice>
  );
}

const paceWords = {
  often: "a webhook is missing",
  usual: "nothing shows yet that its webhooks arrive",
  rarely: "its webhooks arrive",
} as const;

/** How late a push would be deployed whose webhook is lost. */
function Sweeps({ sweeps }: { readonly sweeps: NonNullable<PageForge["sweeps"]> }) {
  const longest = Math.max(...sweeps.map(({ everyMs }) => everyMs));
  return (
    <details>
      <summary>A push whose webhook is lost is found within {ageText(longest)}</summary>
      <ul>
        {sweeps.map(({ repo, pace, everyMs }) => (
          <li key={repo} class="breaks">
            {repo}: within {ageText(everyMs)}, {paceWords[pace]}
          </li>
        ))}
      </ul>
    </details>
  );
}

interface ForgeProps {
  readonly forge: PageForge;
  /** The search text. */
  readonly text: string;
  readonly now: number;
}

function Forge({ forge, text, now }: ForgeProps) {
  const { id, kind, lastVerifiedAt, deliveries } = forge;
  const silence = silenceOf(forge, now);
  const newest = deliveries[0];
  const shown = selectDeliveries(deliveries, text);
  return (
    <section>
      <h2>
        {id} {id !== kind && <span class="quiet">{kind}</span>}
      </h2>
      {forge.missed && <Missed missed={forge.missed} now={now} />}
      {forge.sweeps && <Sweeps sweeps={forge.sweeps} />}
      {forge.polled && <p>This git host sends no webhooks: it is polled every ten seconds.</p>}
      {silence && (
        <Notice kind="bad">
          <strong>{silence}</strong> Meanwhile changes are found by polling git: nothing is lost, but deploys start
          later. If there were pushes in this time, check:
          <ul>
            {newest?.refused !== undefined && (
              <li>the webhook's secret: the last delivery was rejected: {newest.refused}</li>
            )}
            <li>
              the webhook's page at the git host, which lists its deliveries and our responses. The webhook's URL must
              end in <code>/webhooks/{id}</code>
            </li>
            <li>whether the git host can reach that URL: Ingress, firewall, certificate</li>
            <li>
              <code>towline webhook explain</code> with a payload from the git host: shows which deployments match, and
              why the others do not
            </li>
          </ul>
        </Notice>
      )}
      {!silence && (
        <p class="quiet">
          Last verified delivery: <Age at={lastVerifiedAt} now={now} />.
        </p>
      )}
      {deliveries.length > 0 && shown.length === 0 && <p>No deliveries match.</p>}
      <ul class="plain asides">
        {shown.map((delivery, index) => (
          <Delivery key={`${delivery.at} ${delivery.delivery ?? index}`} delivery={delivery} now={now} />
        ))}
      </ul>
    </section>
  );
}

function Delivery({ delivery, now }: { readonly delivery: DeliveryRecord; readonly now: number }) {
  const { at, status, event, repoName, ref, pullRequest, commit, matched, queued, previews = 0 } = delivery;
  const { forge, refused, reason, deployments, fluxSources = [], ignored, ignoredMore, replayable } = delivery;
  const affected = affectedBy(delivery);
  const about = pullRequest === undefined ? `${repoName ?? ""} ${refText(ref)}` : `${repoName ?? ""}#${pullRequest}`;
  return (
    <li>
      {replayable && delivery.delivery !== undefined && (
        <Again label="Replay" of={`the delivery for ${about}`} run={() => replay(forge, delivery.delivery ?? "")} />
      )}
      <div>
        <span class={`badge ${status === 202 ? "ready" : "failed"}`}>{status}</span>{" "}
        <strong>{event === "none" ? "not parsed" : event.replace("-", " ")}</strong> <span class="breaks">{about}</span>{" "}
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
            {matchedText(matched, previews)}
            {affected.map(({ deployment, includes }, index) => (
              <span key={deployment}>
                {index === 0 ? ": " : ", "}
                <a href={addressOf(deployment)}>{deployment}</a>
                {includes && <span class="quiet"> (includes the repository)</span>}
              </span>
            ))}
            {matched > deployments.length && deployments.length > 0 && ", …"}
            {matched + previews > 0 && <span class="quiet"> {queuedText(queued)}</span>}
            {fluxSources.length > 0 && <> Flux fetches {fluxSources.join(", ")}.</>}
          </>
        )}
      </div>
      {ignored.length > 0 && (
        // The reason why nothing was queued is what users look for here.
        <details open={matched + previews === 0 && ignored.length <= fewIgnored}>
          <summary>{ignored.length + ignoredMore} not affected</summary>
          <ul>
            {ignored.map(({ deployment, reason: why }) => (
              <li key={deployment}>
                <a href={addressOf(deployment)}>{deployment}</a>: {why}
              </li>
            ))}
            {ignoredMore > 0 && <li>and {ignoredMore} more</li>}
          </ul>
        </details>
      )}
    </li>
  );
}

const fewIgnored = 3;

function matchedText(matched: number, previews: number): string {
  const concerned = matched === 1 ? "1 deployment matched" : `${matched} deployments matched`;
  const previewed = previews === 1 ? "1 pull request to preview" : `${previews} pull requests to preview`;
  if (matched + previews === 0) return "No deployment is affected.";
  return [previews > 0 && previewed, matched > 0 && concerned].filter(Boolean).join(", ");
}

/** Fewer than matched if jobs for the same deployments were already waiting. */
function queuedText(queued: number): string {
  return `(${queued === 0 ? "no new job" : queued === 1 ? "1 new job" : `${queued} new jobs`})`;
}

async function replay(forge: string, delivery: string): Promise<string> {
  const path = `deliveries/${encodeURIComponent(forge)}/${encodeURIComponent(delivery)}/replay`;
  const receipt = await send<Pick<DeliveryRecord, "matched" | "previews" | "queued" | "reason">>(path);
  return receipt.reason ?? `${matchedText(receipt.matched, receipt.previews ?? 0)} ${queuedText(receipt.queued)}`;
}
