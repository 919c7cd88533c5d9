// What the parts of the page share: the last snapshot, and which subscription is chosen.

export const state = {
  snapshot: null,
  search: "",
  found: null, // what a search answered
  chosen: null, // {client_id, filter}
};

const followers = [];

export const name = ({ client_id, filter }) => JSON.stringify([client_id, filter]);
export const isChosen = (client_id, filter) => state.chosen?.client_id === client_id && state.chosen.filter === filter;

/** Tell me when another subscription is chosen. */
export function onChosen(follower) {
  followers.push(follower);
}

export function choose(target) {
  state.chosen = target;
  for (const follower of followers) follower();
}
