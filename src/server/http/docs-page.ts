/** A page that a person can read, made from the OpenAPI document: no script, nothing from elsewhere. */

import type { OpenApiDocument, Operation } from './document.ts';
import { html, pageOf } from './page.ts';

const STYLE = `
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  code, pre { font: 14px/1.45 ui-monospace, monospace; }
  pre { overflow-x: auto; padding: .75rem; border: 1px solid #8884; border-radius: 6px; }
  details { border: 1px solid #8884; border-radius: 6px; margin: .5rem 0; padding: .5rem .75rem; }
  summary { cursor: pointer; } .method { display: inline-block; min-width: 4rem; font-weight: 600; }
  table { border-collapse: collapse; } td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }
`;

export function docsPage(document: OpenApiDocument): string {
  const byTag = new Map<string, string[]>();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const [tag = ''] = operation.tags;
      byTag.set(tag, [...(byTag.get(tag) ?? []), section(method, path, operation)]);
    }
  }
  const groups = [...byTag].map(([tag, sections]) => `<h2>${html(tag)}</h2>${sections.join('')}`);
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) =>
      `<details id="${html(name)}"><summary><code>${html(name)}</code></summary>${json(schema)}</details>`,
  );
  const { title, version, description } = document.info;
  return pageOf(
    `${title} API`,
    `<h1>${html(title)} <small>${html(version)}</small></h1>
<p>${html(description)} The document itself: <a href="/openapi.json">/openapi.json</a>.</p>
${groups.join('\n')}
<h2>Schemas</h2>${schemas.join('\n')}`,
    STYLE,
  );
}

function section(method: string, path: string, operation: Operation): string {
  const rows = operation.parameters.map(
    ({ name, in: place, required, description }) =>
      `<tr><td><code>${html(name)}</code></td><td>${html(place)}${required ? '' : ', optional'}</td><td>${html(description ?? '')}</td></tr>`,
  );
  const answers = Object.entries(operation.responses).filter(([status]) => status !== 'default');
  return `<details><summary><code><span class="method">${html(method.toUpperCase())}</span> ${html(path)}</code> ${html(operation.summary)}</summary>
<p>${html(operation.description)}</p>
${rows.length > 0 ? `<table>${rows.join('')}</table>` : ''}
${operation.requestBody ? `<h4>Body</h4>${json(operation.requestBody.content)}` : ''}
${answers.map(([status, answer]) => `<h4>Answer ${html(status)}</h4>${answer.content ? json(answer.content) : html(answer.description)}`).join('')}
</details>`;
}

function json(value: unknown): string {
  const text = html(JSON.stringify(value, null, 2));
  return `<pre>${text.replaceAll(/#\/components\/schemas\/(\w+)/g, '<a href="#$1">$&</a>')}</pre>`;
}
