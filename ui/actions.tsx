/** The actions on a deployment, and the progress of the last one. */
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type { PageDeploymentDetails } from "../src/web/facts.ts";
import type { Possible, PossibleActions } from "../src/web/writes.ts";
import type { Action as Name } from "../src/requests/actions.ts";
import { send } from "./api.ts";
import { Objects } from "./diff.tsx";
import { useFact } from "./hooks.ts";
import { Notice } from "./parts.tsx";
import { clockText, messageOf } from "./words.ts";

const names = ["reconcile", "deploy", "validate", "prune", "approve", "suspend", "resume"] as const;

const words: Readonly<Record<Name, { readonly label: string; readonly does: string }>> = {
  reconcile: {
    label: "Reconcile",
    does: "Compare the cluster with git now and deploy what has changed, even if suspended",
  },
  deploy: { label: "Deploy", does: "Deploy now, even if nothing has changed" },
  validate: { label: "Validate", does: "Check now whether all objects are healthy" },
  prune: { label: "Prune …", does: "Delete objects from the cluster that are no longer in git" },
  approve: { label: "Approve …", does: "Approve the pending change, so that it is deployed" },
  suspend: { label: "Suspend", does: "Stop reconciling this deployment until it is resumed" },
  resume: { label: "Resume", does: "Reconcile this deployment again" },
};

interface Asked {
  readonly name: Name;
  readonly state: "sending" | "asked" | "refused";
  readonly at: number;
  /** The previous job of this kind. */
  readonly before?: string | undefined;
  readonly problem?: string;
}

interface ActionsProps {
  /** The deployment's path in the API. */
  readonly path: string;
  readonly details: PageDeploymentDetails;
  /** Changes whenever the deployment has changed. */
  readonly version: unknown;
}

export function Actions({ path, details, version }: ActionsProps) {
  const { value: permissions, problem } = useFact<PossibleActions>(`${path}/actions`, 30_000, version);
  const [asked, setAsked] = useState<Asked | undefined>(undefined);
  const [dialog, setDialog] = useState<{ readonly name: Name; readonly hash?: string | undefined } | undefined>();
  const [why, setWhy] = useState("");
  const { deployment, requests, drift } = details;
  const orphans = drift.objects.filter(({ action }) => action === "orphan");

  async function start(name: Name, hash?: string): Promise<void> {
    const before = requests.find(({ kind }) => kind === name)?.job;
    setWhy("");
    setAsked({ name, state: "sending", at: Date.now(), before });
    try {
      const { at } = await send<{ at: number }>(`${path}/actions`, { action: name, ...(hash && { hash }) });
      setAsked({ name, state: "asked", at, before });
    } catch (error) {
      setAsked({ name, state: "refused", at: Date.now(), problem: messageOf(error) });
    }
  }

  function choose(name: Name, { may, why: because = "", hash }: Possible): void {
    if (!may) {
      setWhy(because);
      setAsked(undefined);
    } else if (name === "prune" || name === "approve") setDialog({ name, hash });
    else void start(name);
  }

  if (permissions === undefined) return problem ? <Notice kind="bad">{problem}</Notice> : null;
  const shown = names.filter((name) => name !== (deployment.suspended ? "suspend" : "resume"));
  return (
    <section aria-label="Actions">
      <div class="actions">
        {shown.map((name) => {
          const may = permissions[name];
          return <ActionButton key={name} name={name} may={may} onClick={() => choose(name, may)} />;
        })}
      </div>
      <div role="status">
        {why && <Notice>{why}</Notice>}
        {asked && <Outcome asked={asked} details={details} />}
      </div>
      {dialog?.name === "prune" && (
        <Confirm
          title={`Prune ${deployment.namespace}/${deployment.name}?`}
          label="Prune"
          onClose={() => setDialog(undefined)}
          onYes={() => void start("prune")}
        >
          <p>Deletes every object that this deployment created in the cluster and that is no longer in git.</p>
          {orphans.length + drift.objectsLeftOut === 0 && (
            <p>
              <strong>The last comparison found no such objects.</strong>
            </p>
          )}
          <Objects objects={orphans} objectsLeftOut={drift.objectsLeftOut} />
        </Confirm>
      )}
      {dialog?.name === "approve" && (
        <Confirm
          title={`Approve the change to ${deployment.namespace}/${deployment.name}?`}
          label="Approve"
          onClose={() => setDialog(undefined)}
          onYes={() => void start("approve", dialog.hash)}
        >
          <p>
            Approves the objects as they are rendered now, and nothing else. Their hash is{" "}
            <code class="breaks">{dialog.hash}</code>
          </p>
          {drift.objects.length + drift.objectsLeftOut === 0 && (
            <p>
              <strong>The last comparison found no object that this would change.</strong>
            </p>
          )}
          <Objects {...drift} />
        </Confirm>
      )}
    </section>
  );
}

interface ButtonProps {
  readonly name: Name;
  readonly may: Possible;
  readonly onClick: () => void;
}

/** A disabled action stays focusable, also by keyboard, and shows the reason. */
function ActionButton({ name, may: { may, why = "" }, onClick }: ButtonProps) {
  const id = useId();
  const { label, does } = words[name];
  const says = may ? does : why;
  return (
    <>
      <button
        type="button"
        class={may && name === "approve" ? "main-button" : undefined /* approval is pending */}
        aria-disabled={!may}
        aria-describedby={id}
        title={says}
        onClick={onClick}
      >
        {label}
      </button>
      <span id={id} class="unseen">
        {says}
      </span>
    </>
  );
}

interface ConfirmProps {
  readonly title: string;
  readonly label: string;
  readonly onYes: () => void;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

function Confirm({ title, label, onYes, onClose, children }: ConfirmProps) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before anything is painted: the next key that is pressed belongs to the dialog already.
  useLayoutEffect(() => {
    if (box.current && !box.current.open) box.current.showModal();
  }, []);
  return (
    <dialog ref={box} aria-labelledby={id} onClose={onClose}>
      <h2 id={id}>{title}</h2>
      <div class="asked">{children}</div>
      <div class="actions">
        <button type="button" onClick={() => box.current?.close()}>
          Cancel
        </button>
        <button type="button" class="main-button" onClick={() => (onYes(), box.current?.close())}>
          {label}
        </button>
      </div>
    </dialog>
  );
}

/** Shows the progress of the last action as the server reports it. */
function Outcome({ asked, details }: { readonly asked: Asked; readonly details: PageDeploymentDetails }) {
  const { name, state, at, before, problem } = asked;
  const what = words[name].label.replace(" …", "");
  if (state === "refused")
    return (
      <Notice kind="bad">
        <strong>{what} was rejected.</strong> {problem}
      </Notice>
    );
  const { ended, error, working } = state === "sending" ? {} : progressOf(name, at, before, details);
  if (error !== undefined)
    return (
      <Notice kind="bad">
        <strong>{what} failed.</strong> {error}
      </Notice>
    );
  if (ended !== undefined)
    return (
      <Notice kind="good">
        <strong>{what}: done.</strong> {ended}
      </Notice>
    );
  return (
    <Notice>
      {state === "sending" ? `${what}: sending the request …` : `${what}: requested at ${clockText(at)} UTC. `}
      {working ?? (state === "asked" && "Waiting in the queue.")}
    </Notice>
  );
}

interface Progress {
  readonly ended?: string;
  readonly error?: string;
  readonly working?: string;
}

function progressOf(
  name: Name,
  at: number,
  before: string | undefined,
  { deployment, requests, results }: PageDeploymentDetails,
): Progress {
  const atWork = deployment.why?.startsWith("in progress") ? { working: `Now ${deployment.why}.` } : {};
  switch (name) {
    case "suspend":
      return deployment.suspended ? { ended: "The deployment is no longer reconciled." } : {};
    case "resume":
      return deployment.suspended ? {} : { ended: "The deployment is reconciled again." };
    case "approve": {
      // Results only have whole seconds.
      const deploy = results.find(({ command, startedAt }) => command === "deploy" && startedAt > at - 1_000);
      if (deploy === undefined) return atWork;
      if (deploy.errors > 0) return { error: "The approved change was deployed with errors, see below." };
      return { ended: `The approved change was deployed: ${deploy.changes || "no differences"}.` };
    }
    default: {
      const request = requests.find(({ kind, job }) => kind === name && job !== before);
      if (request === undefined) return {};
      if (request.endedAt === undefined) return { working: "In progress.", ...atWork };
      if (request.error !== undefined) return { error: request.error };
      const result = results.find(({ id }) => id === request.resultId);
      return { ended: result ? `${result.changes || "No differences"}.` : "" };
    }
  }
}
