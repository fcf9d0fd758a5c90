// Where a TypeScript client goes on the tour, and what it saw.
export async function tour(client, asked) {
  const prompt = await client.getPrompt({ name: 'plan_day', arguments: { city: 'oslo' } });
  const read = await client.readResource({ uri: 'weather://stations/bergen' });
  let missing;
  try {
    missing = (await client.readResource({ uri: 'weather://stations/atlantis' })).contents;
  } catch (error) {
    missing = error.code ?? String(error);
  }
  const ofPrompt = await client.complete({ ref: { type: 'ref/prompt', name: 'plan_day' }, argument: { name: 'city', value: 't' } });
  const ofTemplate = await client.complete({
    ref: { type: 'ref/resource', uri: 'weather://stations/{city}' },
    argument: { name: 'city', value: 'b' }
  });
  const greeting = await client.callTool({ name: 'greet', arguments: { name: 'Grace' } });
  return {
    prompts: (await client.listPrompts()).prompts.map(prompt => prompt.name),
    prompt: prompt.messages.map(message => message.content),
    resources: (await client.listResources()).resources.map(resource => resource.uri),
    templates: (await client.listResourceTemplates()).resourceTemplates.map(template => template.uriTemplate),
    read: read.contents,
    missing,
    completed: [ofPrompt.completion.values, ofTemplate.completion.values],
    asked,
    greeting: greeting.content[0].text
  };
}
