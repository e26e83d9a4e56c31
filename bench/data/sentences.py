"""Sixty-four sentences about anything, to calibrate a sentence encoder with; no benchmark contains them."""

SENTENCES = """\
The committee will meet again on Thursday to discuss the new budget.
A small brown dog is asleep under the kitchen table.
How do I reset the password of my email account?
Interest rates rose by a quarter of a point, the central bank said.
She plays the cello in a string quartet.
The recipe needs two eggs, a cup of flour and a pinch of salt.
Heavy rain flooded several streets in the old town last night.
What is the fastest route from the airport to the harbour?
He repaired the bicycle with a piece of wire and some tape.
The museum is closed on Mondays, except in July and August.
Scientists found traces of water vapour in the atmosphere of a distant planet.
Please send me the invoice before the end of the month.
Two children are building a castle of sand on the beach.
The train to the north was delayed by forty minutes because of a broken signal.
Fans cheered as the goalkeeper saved the last penalty.
A contract is not valid unless both parties have signed it.
The new phone has a brighter screen and a longer battery life.
Why does bread go stale faster in the refrigerator?
An old man feeds pigeons in the square every morning.
The company plans to hire three hundred engineers next year.
Turn left at the church and follow the river for two miles.
Her grandmother taught her to knit when she was six.
The patient was given antibiotics and sent home after two days.
Coffee prices fell to their lowest level in a decade.
Is it possible to learn a language in three months?
The bridge was built in 1887 and restored after the war.
A woman in a red coat is waiting for the bus.
The software crashes whenever the file name contains a space.
Voters will choose a new mayor on the second Sunday of May.
He was surprised.
The farmer sold his wheat to the cooperative at a fixed price.
Mix the paint slowly until no lumps are left.
Several witnesses said that they had seen a bright light above the hills.
The library offers free courses in drawing, photography and chess for anyone over sixty.
My neighbour's cat climbed the tree and would not come down.
Please note that the deadline for applications has been extended until further notice.
A glacier in the eastern valley has lost a third of its length since 1950.
The orchestra opened the season with a symphony by a young composer.
Can I bring my own food into the stadium?
The lawyer argued that the evidence had been collected without a warrant.
Bees need flowers, and flowers need bees.
Yesterday's storm left ten thousand homes without electricity.
The teacher asked the class to write a short poem about winter.
Shares of the airline dropped sharply after the announcement.
They have been married for fifty years.
The red fox is found across the whole northern hemisphere.
To open the lid, press both buttons at the same time and pull gently.
A group of students protested against the rise in fees.
The hotel was clean and quiet, but the breakfast was disappointing.
Which vaccines are recommended for travellers to the tropics?
The spacecraft will reach its orbit in about seven months.
He scored twice in the second half and was named player of the match.
Fresh snow covered the road, and the driver could barely see the edge of it.
The minister denied that he had known of the payments.
An algorithm sorts the list in place without extra memory.
The bakery on the corner sells the best croissants in town.
Police are looking for a blue van that left the scene.
I would like to exchange these shoes for a larger size.
The theatre was full, and people stood along the walls to hear her speak.
Light travels faster in air than in glass.
After the election, the two parties began talks about a coalition that few had expected.
The baby laughed when the balloon burst.
A new law requires landlords to insulate the roofs of rented houses by the end of the decade.
Nobody answered the door.""".splitlines()
